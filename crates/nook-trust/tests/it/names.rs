//! Names at the limits: what is cut, where, and what nobody would see.

use nook_trust::DeviceName;
use nook_trust::name::DEVICE_NAME_BYTES_MAX;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

/// Characters that nobody sees: those that Unicode 16 lets a font leave out
/// (`Default_Ignorable_Code_Point` of `DerivedCoreProperties.txt`), ends of lines and paragraphs,
/// and a few that are blank or belong to the machinery of a text.
const UNSEEN: [(u32, u32); 22] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1_BCA0, 0x1_BCA3),
    (0x1_D173, 0x1_D17A),
    (0xE_0000, 0xE_0FFF),
    (0x0000, 0x0008),
    (0x000E, 0x001F),
    (0x007F, 0x0084),
    (0x0086, 0x009F),
];

fn shown(raw: &str) -> String {
    DeviceName::sanitised(raw).as_str().to_owned()
}

/// What is in no range is seen, or is a space.
fn is_seen(number: u32) -> bool {
    !UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

#[test]
fn p12_what_nobody_sees_is_not_in_a_name_and_its_neighbours_are() {
    for (first, last) in UNSEEN {
        for c in (first..=last).filter_map(char::from_u32) {
            assert_eq!(shown(&format!("a{c}b")), "ab", "{:x}", u32::from(c));
            assert_eq!(shown(&c.to_string()), "Unnamed device", "{:x}", u32::from(c));
        }
        // 2027 is before the ends of lines and paragraphs, which are spaces.
        let neighbours = first.checked_sub(1).into_iter().chain([last + 1, 0x2027]);
        let is_text = |c: &char| is_seen(u32::from(*c)) && !c.is_whitespace() && !c.is_control();
        for c in neighbours.filter_map(char::from_u32).filter(is_text) {
            assert_eq!(shown(&format!("a{c}b")), format!("a{c}b"), "{:x}", u32::from(c));
        }
    }
}

#[test]
fn a_name_is_cut_between_graphemes_at_the_last_byte_that_it_may_have() {
    let flag = "\u{1f1e9}\u{1f1ea}";
    assert_eq!(flag.repeat(20).len(), DEVICE_NAME_BYTES_MAX);
    assert_eq!(shown(&flag.repeat(21)), flag.repeat(20));
    assert_eq!(shown(&format!("a{}", flag.repeat(20))), format!("a{}", flag.repeat(19)));
    let face = "\u{1f600}";
    assert_eq!(shown(&face.repeat(41)), face.repeat(40));
    // A sign that is written beside its letter belongs to it.
    let syllable = "\u{ba8}\u{bbf}";
    assert_eq!(shown(&syllable.repeat(50)), syllable.repeat(26));
    // The fortieth is a space.
    assert_eq!(shown(&format!("{} y", "x".repeat(39))), "x".repeat(39));
}

#[test]
fn a_letter_under_a_heap_of_marks_is_left_out() {
    let heap = |letter: &str, marks: usize| format!("{letter}{}", "\u{301}".repeat(marks));
    assert_eq!(shown(&heap("\u{e9}", 11)), heap("\u{e9}", 11));
    assert_eq!(heap("a", 12).len(), 25);
    assert_eq!(shown(&heap("a", 12)), "Unnamed device");
    assert_eq!(shown(&format!("one {} two", heap("a", 12))), "one two");
    // Signs that are written beside a letter are a heap as well.
    assert_eq!(shown(&format!("a{}", "\u{bbf}".repeat(8))), "Unnamed device");
}

#[test]
fn only_the_beginning_of_a_huge_text_is_looked_at() {
    let far = |before: usize, name: &str| shown(&format!("{}{name}", "\0".repeat(before)));
    assert_eq!(far(4095, "ab"), "a");
    assert_eq!(far(4096, "ab"), "Unnamed device");
    // The limit lies inside a character.
    assert_eq!(far(4095, "\u{e9}"), "Unnamed device");
}

proptest! {
    /// Of what makes long graphemes, and what joins its neighbours: chance alone rarely has it.
    #[test]
    fn a_name_that_is_read_again_stays_the_same(
        raw in "(a| |\u{301}{1,13}|\u{1100}{1,9}|\u{1161}{1,9}|\u{1f1e9}|\u{bbf}|\u{200d}){1,30}",
    ) {
        let name = shown(&raw);
        prop_assert_eq!(&shown(&name), &name);
        prop_assert!(name.len() <= 160 && name.graphemes(true).count() <= 40);
        prop_assert!(!name.contains("  ") && name.trim() == name);
    }
}
