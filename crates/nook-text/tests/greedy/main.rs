//! Promise: a template that would make more than memory holds ends in an error before it does.
//!
//! In a process of its own: what it ever had in memory is measured, and no other test may take any.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../it/rendering.rs"]
mod rendering;

use nook_text::TemplateError;

use rendering::{SAY, render};

/// Each makes more than memory has, in a few steps.
const GREEDY: &[&str] = &[
    "{% set ns = namespace(x='x' * 1000) %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='x' * 1000) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=['x']) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | list | length }}",
    "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = m(ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x | replace('x', ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('x', ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x, ns.x] | join(ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x.join([ns.x, ns.x, ns.x]) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = '%s%s' | format(ns.x, ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = '{0}{0}'.format(ns.x) %}{% endfor %}",
    "{{ '%999999999s' | format('x') }}",
    "{{ '{:>999999999}'.format('x') }}",
    "{{ 'x\n' | indent(9999999999) }}",
    "{{ 'x\n' | indent(width=9999999999) }}",
    "{{ [1] | slice(9999999999) | list }}",
    "{{ [1] | batch(9999999999, 'x') | list }}",
    "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | string | length }}",
    "{% set ns = namespace(x='x' * 99999999) %}{% set ns.y = 'x' * 99999999 %}",
    "{% set x = 'x' * 9999999 %}{{ [x, x, x, x, x] | map('upper') | map('replace', 'X', 'yyyy') | list | length }}",
    "{% set x = ['x'] * 9999999 %}",
    // Nested so deeply that freeing or writing it would exhaust the stack.
    "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
    "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
    "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = dict(a=ns.x) %}{% endfor %}",
    "{% set ns = namespace(x=range(999)) %}{% for i in range(99999) %}{% set ns.x = ns.x[0:] %}{% endfor %}",
    "{% set ns = namespace(x=[1, 2]) %}{% for i in range(99999) %}{% set ns.x = ns.x | reverse %}{% endfor %}",
    "{% set ns = namespace(x=[1, 2]) %}{% for i in range(99999) %}{% set ns.x = ns.x | batch(1) %}{% endfor %}",
    "{% set x = 'x,' * 9999999 %}{% set y = x.split(',') %}",
    "{% set x = 'x' * 9999999 %}{% set y = x | list %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = ns.x + [range(99999) | list] %}{% endfor %}",
];

#[test]
fn greedy_templates_end_in_an_error() {
    for source in GREEDY {
        let source = format!("{source}{SAY}");
        let outcome = render(&source, &[("user", "U")]);
        assert_eq!(outcome, Err(TemplateError::MakesTooMuch), "{source}");
    }
    // Small things are bounded by the steps that make them.
    let small = "{% for i in range(99999) %}{% for j in range(99) %}\
                 {% set y = {'a': i, 'b': j} %}{% endfor %}{% endfor %}";
    assert_eq!(render(small, &[("user", "U")]), Err(TemplateError::OutOfFuel));
    assert_small();
}

/// What this process ever had in memory at once: all of the above took less than 256 MB.
#[cfg(target_os = "linux")]
fn assert_small() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 256 << 10, "{kilobytes} kB at most");
}

#[cfg(not(target_os = "linux"))]
fn assert_small() {}
