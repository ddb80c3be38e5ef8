//! Expressions, printed with their guards. Brackets stand around every operand that is itself an
//! operation, so the order in which the publisher's source computes is kept.

use minijinja::machinery::ast::{
    BinOp, BinOpKind, Call, CallArg, CompareOpKind, Expr, Map, Slice, UnaryOpKind,
};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::{FACTOR, ITEM, MADE, PART, Printer, SLICE, TEXT, TIMES, unsupported};

impl Printer {
    /// Filters that apply to a block: the innermost has no expression.
    pub(super) fn filters(&mut self, filter: &Expr<'_>) -> Result<(), Error> {
        let Expr::Filter(node) = filter else {
            return Err(unsupported("no filter", usize::from(filter.span().start_line)));
        };
        if let Some(inner) = &node.expr {
            self.filters(inner)?;
            self.out.push('|');
        }
        self.out.push_str(node.name);
        self.arguments(&node.args)
    }

    /// `(expression)|filter`.
    pub(super) fn through(&mut self, expression: &Expr<'_>, filter: &str) -> Result<(), Error> {
        self.out.push('(');
        self.expression(expression)?;
        self.out.push_str(")|");
        self.out.push_str(filter);
        Ok(())
    }

    /// Any expression.
    pub(super) fn expression(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        match expression {
            Expr::Var(node) => self.out.push_str(node.id),
            Expr::Const(node) => return self.constant(&node.value, node.span().start_line),
            Expr::Slice(node) => return self.slice(node),
            Expr::UnaryOp(node) => {
                self.out.push_str(match node.op {
                    UnaryOpKind::Not => "not ",
                    UnaryOpKind::Neg => "-",
                });
                self.operand(&node.expr)?;
            }
            Expr::BinOp(node) => return self.operation(node),
            Expr::Compare(node) => {
                self.operand(&node.expr)?;
                for op in &node.ops {
                    self.out.push_str(comparison(op.op));
                    self.operand(&op.expr)?;
                }
            }
            Expr::IfExpr(node) => {
                self.operand(&node.true_expr)?;
                self.out.push_str(" if ");
                self.operand(&node.test_expr)?;
                if let Some(other) = &node.false_expr {
                    self.out.push_str(" else ");
                    self.operand(other)?;
                }
            }
            Expr::Filter(node) => {
                let Some(inner) = &node.expr else {
                    return Err(unsupported("no value", usize::from(node.span().start_line)));
                };
                self.filtered(inner)?;
                return self.applied("|", node.name, &node.args);
            }
            Expr::Test(node) => {
                self.filtered(&node.expr)?;
                return self.applied(" is ", node.name, &node.args);
            }
            Expr::GetAttr(node) => {
                self.base(&node.expr)?;
                self.out.push('.');
                self.out.push_str(node.name);
            }
            Expr::GetItem(node) => {
                self.base(&node.expr)?;
                self.out.push('[');
                self.expression(&node.subscript_expr)?;
                self.out.push(']');
            }
            Expr::Call(node) => return self.call(node),
            Expr::List(node) => return self.items("[", &node.items, "]"),
            Expr::Tuple(node) => {
                let close = if node.items.len() == 1 { ",)" } else { ")" };
                return self.items("(", &node.items, close);
            }
            Expr::Map(node) => return self.map(node),
        }
        Ok(())
    }

    fn applied(&mut self, by: &str, name: &str, args: &[CallArg<'_>]) -> Result<(), Error> {
        self.out.push_str(by);
        self.out.push_str(name);
        self.arguments(args)
    }

    fn map(&mut self, node: &Map<'_>) -> Result<(), Error> {
        self.out.push('{');
        for (index, (key, value)) in node.keys.iter().zip(&node.values).enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            self.operand(key)?;
            self.out.push_str(": ");
            self.item(value)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn items(&mut self, open: &str, items: &[Expr<'_>], close: &str) -> Result<(), Error> {
        self.out.push_str(open);
        for (index, item) in items.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            self.item(item)?;
        }
        self.out.push_str(close);
        Ok(())
    }

    /// What is put into something else. Constants nest no deeper than the source does.
    pub(super) fn item(&mut self, item: &Expr<'_>) -> Result<(), Error> {
        match item {
            Expr::Const(_) => self.expression(item),
            _ => self.through(item, ITEM),
        }
    }

    fn operation(&mut self, node: &BinOp<'_>) -> Result<(), Error> {
        let grows = matches!(node.op, BinOpKind::Add | BinOpKind::Concat | BinOpKind::Mul);
        self.out.push_str(if grows { "(" } else { "" });
        self.operands(node)?;
        if grows {
            self.out.push_str(")|");
            self.out.push_str(MADE);
        }
        Ok(())
    }

    fn operands(&mut self, node: &BinOp<'_>) -> Result<(), Error> {
        // `a + b + c` stays one line of operands, however long: brackets around each step would
        // nest as deeply as the line is long.
        let chains = matches!(
            node.op,
            BinOpKind::Add | BinOpKind::Concat | BinOpKind::ScAnd | BinOpKind::ScOr
        );
        let same =
            |left: &BinOp<'_>| std::mem::discriminant(&left.op) == std::mem::discriminant(&node.op);
        match &node.left {
            Expr::BinOp(left) if chains && same(left) => self.operands(left)?,
            left => {
                let factor = matches!(node.op, BinOpKind::Mul).then_some(FACTOR);
                self.side(left, part(node.op).or(factor))?;
            }
        }
        self.out.push_str(operator(node.op));
        let times = matches!(node.op, BinOpKind::Mul).then_some(TIMES);
        self.side(&node.right, part(node.op).or(times))
    }

    fn side(&mut self, side: &Expr<'_>, filter: Option<&str>) -> Result<(), Error> {
        match filter {
            Some(filter) => self.through(side, filter),
            None => self.operand(side),
        }
    }

    fn slice(&mut self, node: &Slice<'_>) -> Result<(), Error> {
        self.through(&node.expr, SLICE)?;
        self.out.push('(');
        for (index, bound) in [&node.start, &node.stop, &node.step].into_iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            match bound {
                Some(bound) => self.expression(bound)?,
                None => self.out.push_str("none"),
            }
        }
        self.out.push(')');
        Ok(())
    }

    /// A call of a function, macro or method.
    pub(super) fn call(&mut self, node: &Call<'_>) -> Result<(), Error> {
        self.base(&node.expr)?;
        self.out.push('(');
        self.listed(&node.args)?;
        self.out.push(')');
        Ok(())
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) -> Result<(), Error> {
        if arguments.is_empty() {
            return Ok(());
        }
        self.out.push('(');
        self.listed(arguments)?;
        self.out.push(')');
        Ok(())
    }

    fn listed(&mut self, arguments: &[CallArg<'_>]) -> Result<(), Error> {
        for (index, argument) in arguments.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { "" });
            let value = match argument {
                CallArg::Pos(value) => value,
                CallArg::Kwarg(name, value) => {
                    self.out.push_str(name);
                    self.out.push('=');
                    value
                }
                CallArg::PosSplat(value) => {
                    self.out.push('*');
                    value
                }
                CallArg::KwargSplat(value) => {
                    self.out.push_str("**");
                    value
                }
            };
            self.expression(value)?;
        }
        Ok(())
    }

    /// An expression beside an operator.
    fn operand(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        let alone = matches!(
            expression,
            Expr::BinOp(_) | Expr::UnaryOp(_) | Expr::Compare(_) | Expr::IfExpr(_) | Expr::Test(_)
        );
        self.bracketed(expression, alone)
    }

    /// An expression before `|` or `is`.
    fn filtered(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        let alone = matches!(
            expression,
            Expr::BinOp(_) | Expr::UnaryOp(_) | Expr::Compare(_) | Expr::IfExpr(_) | Expr::Test(_)
        );
        self.bracketed(expression, alone || is_negative(expression))
    }

    /// An expression before `.`, `[` or `(`.
    fn base(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        let plain = matches!(
            expression,
            Expr::Var(_)
                | Expr::GetAttr(_)
                | Expr::GetItem(_)
                | Expr::Call(_)
                | Expr::List(_)
                | Expr::Map(_)
        );
        self.bracketed(expression, !plain)
    }

    fn bracketed(&mut self, expression: &Expr<'_>, brackets: bool) -> Result<(), Error> {
        if brackets {
            self.out.push('(');
        }
        self.expression(expression)?;
        if brackets {
            self.out.push(')');
        }
        Ok(())
    }

    fn constant(&mut self, value: &Value, line: u16) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("none"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => match f64::try_from(value.clone()) {
                Ok(number) if number.is_finite() => self.out.push_str(&format!("{number:?}")),
                _ => return Err(unsupported("a number too large", usize::from(line))),
            },
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            _ => return Err(unsupported("an unknown constant", usize::from(line))),
        }
        Ok(())
    }

    /// A text in quotation marks.
    pub(super) fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// The guard of both operands.
fn part(kind: BinOpKind) -> Option<&'static str> {
    match kind {
        BinOpKind::Add => Some(PART),
        BinOpKind::Concat => Some(TEXT),
        _ => None,
    }
}

fn is_negative(expression: &Expr<'_>) -> bool {
    let number = |value: &Value| f64::try_from(value.clone()).is_ok_and(|number| number < 0.0);
    matches!(expression, Expr::Const(node) if number(&node.value))
}

fn operator(kind: BinOpKind) -> &'static str {
    match kind {
        BinOpKind::Eq => " == ",
        BinOpKind::Ne => " != ",
        BinOpKind::Lt => " < ",
        BinOpKind::Lte => " <= ",
        BinOpKind::Gt => " > ",
        BinOpKind::Gte => " >= ",
        BinOpKind::ScAnd => " and ",
        BinOpKind::ScOr => " or ",
        BinOpKind::Add => " + ",
        BinOpKind::Sub => " - ",
        BinOpKind::Mul => " * ",
        BinOpKind::Div => " / ",
        BinOpKind::FloorDiv => " // ",
        BinOpKind::Rem => " % ",
        BinOpKind::Pow => " ** ",
        BinOpKind::Concat => " ~ ",
        BinOpKind::In => " in ",
    }
}

fn comparison(kind: CompareOpKind) -> &'static str {
    match kind {
        CompareOpKind::Eq => " == ",
        CompareOpKind::Ne => " != ",
        CompareOpKind::Lt => " < ",
        CompareOpKind::Lte => " <= ",
        CompareOpKind::Gt => " > ",
        CompareOpKind::Gte => " >= ",
        CompareOpKind::In => " in ",
        CompareOpKind::NotIn => " not in ",
    }
}
