//! A small preprocessor for WGSL: constants, conditions and loops that are written out.
//!
//! Shaders are checked when they are made: every loop gets a guard, which keeps drivers from
//! unrolling it. So loops over registers are unrolled here, and each kernel is text for exactly one
//! shape.
//!
//! | line | meaning |
//! | --- | --- |
//! | `#for NAME COUNT` ... `#end` | the lines, for `NAME` from 0 to `COUNT - 1` |
//! | `#if NAME` ... `#else` ... `#end` | the lines if `NAME` is set and not 0 |
//! | `${NAME}` | the value of `NAME` |
//!
//! A mistake in a template shows as a line that WGSL does not know, in the tests that build every
//! kernel.

use std::collections::BTreeMap;

/// Names and values that a template is written out with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// These names and values.
    pub(crate) fn new(values: &[(&'static str, u32)]) -> Self {
        Self(values.iter().map(|(name, value)| (*name, value.to_string())).collect())
    }

    /// With one more text.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.insert(name, value.into());
        self
    }

    /// With all of `others`, which count where both have a name.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    fn is_set(&self, name: &str, local: &[(String, u32)]) -> bool {
        match local.iter().rev().find(|(other, _)| other == name) {
            Some((_, value)) => *value != 0,
            None => self.0.get(name).is_some_and(|value| value != "0" && !value.is_empty()),
        }
    }

    fn number(&self, name: &str) -> u32 {
        name.parse().ok().or_else(|| self.0.get(name)?.parse().ok()).unwrap_or(0)
    }

    /// `line` with every `${NAME}` replaced.
    fn replaced(&self, line: &str, local: &[(String, u32)]) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let after = &rest[at + 2..];
            let Some(end) = after.find('}') else { break };
            let name = &after[..end];
            match local.iter().rev().find(|(other, _)| other == name) {
                Some((_, value)) => out.push_str(&value.to_string()),
                None => out.push_str(self.0.get(name).map_or("?", |value| value)),
            }
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        out
    }
}

/// `template`, written out.
pub(crate) fn expand(template: &str, values: &Values) -> String {
    let lines: Vec<&str> = template.lines().collect();
    let mut out = String::with_capacity(2 * template.len());
    block(&lines, values, &mut Vec::new(), &mut out);
    out
}

fn block(lines: &[&str], values: &Values, local: &mut Vec<(String, u32)>, out: &mut String) {
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        if let Some(head) = line.strip_prefix("#for ") {
            let end = at + 1 + closing(&lines[at + 1..]);
            let (name, count) = head.split_once(' ').unwrap_or((head, "0"));
            for value in 0..values.number(count.trim()) {
                local.push((name.to_owned(), value));
                block(&lines[at + 1..end], values, local, out);
                local.pop();
            }
            at = end + 1;
        } else if let Some(name) = line.strip_prefix("#if ") {
            let end = at + 1 + closing(&lines[at + 1..]);
            let body = &lines[at + 1..end];
            let other = alternative(body);
            let (yes, no) = (&body[..other], body.get(other + 1..).unwrap_or_default());
            let chosen = if values.is_set(name.trim(), local) { yes } else { no };
            block(chosen, values, local, out);
            at = end + 1;
        } else {
            out.push_str(&values.replaced(lines[at], local));
            out.push('\n');
            at += 1;
        }
    }
}

/// Where the block that these lines begin with ends.
fn closing(lines: &[&str]) -> usize {
    find(lines, "#end")
}

/// Where its other branch begins; its end where it has none.
fn alternative(lines: &[&str]) -> usize {
    find(lines, "#else")
}

fn find(lines: &[&str], wanted: &str) -> usize {
    let mut depth = 0;
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        if depth == 0 && line == wanted {
            return at;
        }
        if line.starts_with("#for ") || line.starts_with("#if ") {
            depth += 1;
        } else if line == "#end" {
            depth -= 1;
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_conditions_and_names_are_written_out() {
        let template = "a ${N}\n#for r R\n#for t 2\nx${r}_${t} = ${r};\n#end\n#end\n\
                        #if YES\n#if NO\nno\n#else\nyes\n#end\n#else\nnever\n#end\nz";
        let values = Values::new(&[("N", 7), ("R", 2), ("YES", 1), ("NO", 0)]);
        let expected = "a 7\nx0_0 = 0;\nx0_1 = 0;\nx1_0 = 1;\nx1_1 = 1;\nyes\nz\n";
        assert_eq!(expand(template, &values), expected);
    }
}
