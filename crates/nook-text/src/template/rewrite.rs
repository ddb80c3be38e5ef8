//! A template, written anew with its dangerous operations fenced.
//!
//! minijinja counts steps, but one step may double a text (`~`, `+`, `*`) and it has no hook for
//! operators. So the template is parsed with minijinja's own parser and printed again, the same
//! program with guards in it, all of them filters (which a template cannot shadow) that `budget`
//! owns:
//!
//! - operands of `~` go through [`TEXT`], those of `+` through [`PART`], those of `*` through
//!   [`FACTOR`] and [`TIMES`], which count what the operation is about to make, and the result
//!   through [`MADE`];
//! - what is put into a list, a map or a namespace goes through [`ITEM`], which counts how deeply
//!   values may nest;
//! - text between tags becomes an expression, so that the formatter counts it as well;
//! - what a loop runs over goes through [`EACH`], because Python refuses `none` there;
//! - slices become [`SLICE`], because minijinja's are slow when they nest and panic on empty lists.
//!
//! Statements stay in their lines, so errors name the lines of the publisher's source. The parser
//! and the later stages recurse on some shapes without a limit, so [`check_shape`] refuses sources
//! that are deeper than any real template before they are parsed.

mod expression;

use minijinja::machinery::ast::{
    Expr, ForLoop, IfCond, Macro, Set, SetBlock, Spanned, Stmt, WithBlock,
};
use minijinja::machinery::{Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// Counts the bytes of a value that is about to be written into a text.
pub(super) const TEXT: &str = "nook_text";
/// What `~`, `+` or `*` made.
pub(super) const MADE: &str = "nook_made";
/// What is put into something else.
pub(super) const ITEM: &str = "nook_item";
/// Counts the bytes of a value that is about to be copied.
pub(super) const PART: &str = "nook_part";
/// Remembers the left side of a product.
pub(super) const FACTOR: &str = "nook_factor";
/// Counts the product of what [`FACTOR`] remembers and this value.
pub(super) const TIMES: &str = "nook_times";
/// What a loop runs over.
pub(super) const EACH: &str = "nook_each";
/// A slice: start, stop, step.
pub(super) const SLICE: &str = "nook_slice";

/// Most operators, dots and opening brackets in one tag, each of which may nest; a source with more
/// is refused. The most in our fixtures are about 40.
const TAG_OPERATORS_MAX: usize = 250;

/// Most `elif` in one template; a source with more is refused.
const ELIF_MAX: usize = 200;

/// The fenced form of `source`.
pub(super) fn fenced(source: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    check_shape(source, syntax)?;
    let mut printer = Printer { out: String::with_capacity(source.len() * 2), line: 1 };
    let Stmt::Template(template) = parse(source, "chat", syntax.clone())? else {
        return Err(unsupported("no template", 0));
    };
    printer.statements(&template.children)?;
    Ok(printer.out)
}

/// Refuses what would make the parser recurse too deeply.
fn check_shape(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let (mut operators, mut elifs) = (0, 0);
    let mut first = false;
    for token in tokenize(source, false, syntax.clone()) {
        let (token, span) = token?;
        match token {
            Token::VariableStart | Token::BlockStart => operators = 0,
            Token::Ident("elif") if first => elifs += 1,
            Token::Ident("not" | "is" | "and" | "or" | "if" | "else" | "in") => operators += 1,
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            Token::Comma | Token::Colon => {}
            _ => operators += 1,
        }
        first = matches!(token, Token::BlockStart);
        if operators > TAG_OPERATORS_MAX || elifs > ELIF_MAX {
            return Err(unsupported("nested too deeply", usize::from(span.start_line)));
        }
    }
    Ok(())
}

fn unsupported(what: &'static str, line: usize) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("{what} (line {line})"))
}

struct Printer {
    out: String,
    /// The line that `out` has reached.
    line: u16,
}

impl Printer {
    /// Goes to `line`, inside of a tag, where line ends mean nothing.
    fn reach(&mut self, line: u16) {
        while self.line < line {
            self.out.push('\n');
            self.line += 1;
        }
    }

    fn tag(&mut self, line: u16, words: &str) {
        self.out.push_str("{% ");
        self.reach(line);
        self.out.push_str(words);
    }

    fn close(&mut self) {
        self.out.push_str(" %}");
    }

    fn word(&mut self, word: &str) {
        self.out.push_str("{% ");
        self.out.push_str(word);
        self.close();
    }

    fn statements(&mut self, statements: &[Stmt<'_>]) -> Result<(), Error> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Result<(), Error> {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitRaw(node) => {
                self.out.push_str("{{ ");
                self.text(node.raw);
                self.out.push_str(" }}");
                Ok(())
            }
            Stmt::EmitExpr(node) => {
                self.out.push_str("{{ ");
                self.reach(node.span().start_line);
                self.expression(&node.expr)?;
                self.out.push_str(" }}");
                Ok(())
            }
            Stmt::ForLoop(node) => self.for_loop(node),
            Stmt::IfCond(node) => self.condition(node),
            Stmt::WithBlock(node) => self.with_block(node),
            Stmt::Set(node) => self.set(node),
            Stmt::SetBlock(node) => self.set_block(node),
            Stmt::FilterBlock(node) => {
                self.tag(node.span().start_line, "filter ");
                self.filters(&node.filter)?;
                self.close();
                self.body(&node.body, "endfilter")
            }
            Stmt::Macro(node) => {
                self.tag(node.span().start_line, "macro ");
                self.signature(node.name, node)?;
                self.close();
                self.body(&node.body, "endmacro")
            }
            Stmt::CallBlock(node) => {
                self.tag(node.span().start_line, "call");
                self.signature("", &node.macro_decl)?;
                self.out.push(' ');
                self.call(&node.call)?;
                self.close();
                self.body(&node.macro_decl.body, "endcall")
            }
            Stmt::Do(node) => {
                self.tag(node.span().start_line, "do ");
                self.call(&node.call)?;
                self.close();
                Ok(())
            }
            Stmt::Continue(_) => self.body(&[], "continue"),
            Stmt::Break(_) => self.body(&[], "break"),
            Stmt::AutoEscape(node) => self.statements(&node.body),
            // There is no other template to extend, include or take from.
            Stmt::Block(node) => self.statements(&node.body),
            Stmt::Import(node) => Err(elsewhere(node.span().start_line)),
            Stmt::FromImport(node) => Err(elsewhere(node.span().start_line)),
            Stmt::Extends(node) => Err(elsewhere(node.span().start_line)),
            Stmt::Include(node) => Err(elsewhere(node.span().start_line)),
        }
    }

    /// Statements, and the tag of one word that ends them.
    fn body(&mut self, statements: &[Stmt<'_>], end: &str) -> Result<(), Error> {
        self.statements(statements)?;
        self.word(end);
        Ok(())
    }

    fn for_loop(&mut self, node: &Spanned<ForLoop<'_>>) -> Result<(), Error> {
        self.tag(node.span().start_line, "for ");
        self.target(&node.target)?;
        self.out.push_str(" in ");
        self.through(&node.iter, EACH)?;
        if let Some(filter) = &node.filter_expr {
            self.out.push_str(" if ");
            self.expression(filter)?;
        }
        self.out.push_str(if node.recursive { " recursive" } else { "" });
        self.close();
        self.statements(&node.body)?;
        if !node.else_body.is_empty() {
            self.word("else");
            self.statements(&node.else_body)?;
        }
        self.word("endfor");
        Ok(())
    }

    fn with_block(&mut self, node: &Spanned<WithBlock<'_>>) -> Result<(), Error> {
        self.tag(node.span().start_line, "with ");
        for (index, (target, value)) in node.assignments.iter().enumerate() {
            self.out.push_str(if index > 0 { ", (" } else { "(" });
            self.target(target)?;
            self.out.push_str(") = ");
            self.expression(value)?;
        }
        self.close();
        self.body(&node.body, "endwith")
    }

    fn set(&mut self, node: &Spanned<Set<'_>>) -> Result<(), Error> {
        self.tag(node.span().start_line, "set ");
        self.target(&node.target)?;
        self.out.push_str(" = ");
        match &node.target {
            Expr::GetAttr(_) => self.item(&node.expr)?,
            _ => self.expression(&node.expr)?,
        }
        self.close();
        Ok(())
    }

    fn set_block(&mut self, node: &Spanned<SetBlock<'_>>) -> Result<(), Error> {
        self.tag(node.span().start_line, "set ");
        self.target(&node.target)?;
        if let Some(filter) = &node.filter {
            self.out.push_str(" | ");
            self.filters(filter)?;
        }
        self.close();
        self.body(&node.body, "endset")
    }

    fn condition(&mut self, node: &Spanned<IfCond<'_>>) -> Result<(), Error> {
        self.tag(node.span().start_line, "if ");
        let mut node = node;
        loop {
            self.expression(&node.expr)?;
            self.close();
            self.statements(&node.true_body)?;
            match node.false_body.as_slice() {
                [] => break,
                [Stmt::IfCond(next)] => {
                    self.tag(next.span().start_line, "elif ");
                    node = next;
                }
                other => {
                    self.word("else");
                    self.statements(other)?;
                    break;
                }
            }
        }
        self.word("endif");
        Ok(())
    }

    fn signature(&mut self, name: &str, node: &Macro<'_>) -> Result<(), Error> {
        self.out.push_str(name);
        self.out.push('(');
        let without = node.args.len().saturating_sub(node.defaults.len());
        for (index, arg) in node.args.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            self.expression(arg)?;
            if let Some(default) = index.checked_sub(without).and_then(|i| node.defaults.get(i)) {
                self.out.push('=');
                self.expression(default)?;
            }
        }
        self.out.push(')');
        Ok(())
    }

    /// Where a value goes: one name, or several without brackets around them.
    fn target(&mut self, target: &Expr<'_>) -> Result<(), Error> {
        match target {
            Expr::List(node) => self.targets(&node.items),
            other => self.expression(other),
        }
    }

    fn targets(&mut self, targets: &[Expr<'_>]) -> Result<(), Error> {
        for (index, target) in targets.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            let several = matches!(target, Expr::List(_));
            self.out.push_str(if several { "(" } else { "" });
            self.target(target)?;
            self.out.push_str(if several { ")" } else { "" });
        }
        // `a, = …` takes the only item of a list.
        self.out.push_str(if targets.len() == 1 { "," } else { "" });
        Ok(())
    }
}

fn elsewhere(line: u16) -> Error {
    unsupported("a tag that needs another template", usize::from(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let syntax = SyntaxConfig::builder().build().unwrap();
        assert_eq!(fenced(source, &syntax).unwrap(), expected, "{source}");
    }

    #[test]
    fn operands_of_growing_operations_are_counted() {
        check("{{ a ~ b ~ c }}", "{{ ((a)|nook_text ~ (b)|nook_text ~ (c)|nook_text)|nook_made }}");
        check("{{ a + -b }}", "{{ ((a)|nook_part + (-b)|nook_part)|nook_made }}");
        check("{{ a * 2 }}", "{{ ((a)|nook_factor * (2)|nook_times)|nook_made }}");
        check("a\"\\\nb", "{{ \"a\\\"\\\\\\nb\" }}");
        check(
            "{% for x in y.z if x %}{% endfor %}",
            "{% for x in (y.z)|nook_each if x %}{% endfor %}",
        );
        check("{{ x[::-1] }}", "{{ (x)|nook_slice(none, none, -1) }}");
        check("{{ [x, 1] }}", "{{ [(x)|nook_item, 1] }}");
        check("{% set n.x = {'a': b} %}", "{% set n.x = ({\"a\": (b)|nook_item})|nook_item %}");
        check("{{ x[1:] }}", "{{ (x)|nook_slice(1, none, none) }}");
    }

    #[test]
    fn what_needs_brackets_keeps_them() {
        for source in [
            "{{ (not (a and b)) or c }}",
            "{{ (a if b else c).d }}",
            "{{ (a|f).g[h](i, j=k, *l, **m) }}",
            "{{ (a is defined) and (not (b is none)) }}",
            "{{ (-a)|abs }}",
            "{{ (2,)|f({\"c\": 3}) }}",
            "{% if a %}{{ b }}{% elif c %}{% else %}{{ d }}{% endif %}",
            "{% macro m(a, b=1) %}{{ caller(a) }}{% endmacro %}{% call(x) m(1) %}{{ x }}{% endcall %}",
            "{% set a | upper|trim %}{{ b }}{% endset %}{% set ns.x = 1 %}",
            "{{ a - (b - c) }}",
            "{% set a, (b, c) = d %}",
            "{% with (a) = 1, (b, c) = d %}{% endwith %}",
        ] {
            check(source, source);
        }
    }

    #[test]
    fn statements_stay_in_their_lines() {
        check("a\n\n{{ b }}", "{{ \"a\\n\\n\" }}{{ \n\nb }}");
    }

    #[test]
    fn sources_that_would_exhaust_the_stack_are_refused() {
        let syntax = SyntaxConfig::builder().build().unwrap();
        for source in [
            format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
            format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
            format!("{{{{ {}1 }}}}", "1 - ".repeat(50_000)),
            format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000)),
            format!("{{{{ a{} }}}}", "|f".repeat(50_000)),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(20_000)),
            "{% if a %}".repeat(20_000),
        ] {
            assert!(fenced(&source, &syntax).is_err());
        }
        // What is just allowed is parsed, or refused, within the stack of a thread.
        for source in [
            format!("{{{{ {}1 }}}}", "-".repeat(245)),
            format!("{{{{ {}1 }}}}", "not ".repeat(245)),
            format!("{{{{ {}1 }}}}", "1 - ".repeat(245)),
            format!("{{{{ {}1 }}}}", "1 ~ ".repeat(245)),
            format!("{{{{ {}1 }}}}", "1 ** ".repeat(245)),
            format!("{{{{ a{} }}}}", "|f".repeat(245)),
            format!("{{{{ a{} }}}}", ".a".repeat(245)),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(195)),
        ] {
            let _ = fenced(&source, &syntax)
                .map(|source| parse(&source, "chat", syntax.clone()).is_ok());
        }
    }
}
