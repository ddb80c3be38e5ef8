//! Headers at their limits: what just fits is read as what it says, and one more is refused.
//!
//! The files are made byte by byte here, as the writer of synthetic models makes none that are
//! wrong.

use std::io::{self, Read};

use nook_kernels::Format;
use nook_model::Fault;
use nook_model::gguf::{
    ELEMENTS_MAX, HEADER_BYTES_MAX, Header, KEY_BYTES_MAX, KEYS_MAX, LIST_MAX, LISTED_TEXTS_MAX,
    TENSOR_NAME_BYTES_MAX, TENSORS_MAX, TensorType, Value,
};

/// A file that is long enough for everything below.
const LONG: u64 = 1 << 50;

/// A header under construction.
#[derive(Clone, Default)]
struct Made {
    keys: u64,
    tensors: u64,
    bytes: Vec<u8>,
}

impl Made {
    fn word(mut self, number: u32) -> Self {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn long(mut self, number: u64) -> Self {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn text(self, text: &[u8]) -> Self {
        self.long(text.len() as u64).put(text)
    }

    /// A key with a value of this type and these bytes.
    fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys += 1;
        self.text(key.as_bytes()).word(kind).put(value)
    }

    /// A key with a list of so many entries of this type, and their bytes.
    fn list(self, key: &str, kind: u32, length: u64, entries: &[u8]) -> Self {
        self.key(key, 9, &[]).word(kind).long(length).put(entries)
    }

    fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors += 1;
        self = self.text(name.as_bytes()).word(dimensions.len() as u32);
        self = dimensions.iter().fold(self, |made, dimension| made.long(*dimension));
        self.word(kind).long(offset)
    }

    /// With so many keys and tensors, whatever there is.
    fn counted(mut self, tensors: u64, keys: u64) -> Self {
        (self.tensors, self.keys) = (tensors, keys);
        self
    }

    fn whole(&self) -> Vec<u8> {
        let start = Self::default().put(b"GGUF").word(3).long(self.tensors).long(self.keys);
        start.put(&self.bytes).bytes
    }

    /// Reads it as the beginning of a file of so many bytes, of which the rest is zeros.
    fn in_file_of(&self, file_bytes: u64) -> Result<Header, Fault> {
        Header::read(self.whole().chain(io::repeat(0)), file_bytes)
    }

    fn read(&self) -> Result<Header, Fault> {
        self.in_file_of(LONG)
    }

    fn fault(&self) -> Fault {
        self.read().expect_err("it is read")
    }
}

fn made() -> Made {
    Made::default()
}

fn too_many(what: &str, got: u64, limit: u64) -> Fault {
    Fault::TooMany { what: what.to_owned(), got, limit }
}

fn truncated(inside: &str, needed: u64, left: u64) -> Fault {
    Fault::Truncated { inside: inside.to_owned(), needed, left }
}

fn no_text(what: &str) -> Fault {
    Fault::Text { what: what.to_owned() }
}

#[test]
fn only_magic_and_versions_that_are_known_are_read() {
    let start = |magic: &[u8], version: u32| {
        let bytes = made().put(magic).word(version).long(0).long(0).bytes;
        Header::read(&bytes[..], bytes.len() as u64).map(|header| header.version())
    };
    assert_eq!(start(b"GGUF", 2), Ok(2));
    assert_eq!(start(b"GGUF", 3), Ok(3));
    assert_eq!(start(b"GGUG", 3), Err(Fault::NotGguf));
    assert_eq!(start(b"FUGG", 3), Err(Fault::NotGguf));
    for got in [0, 1, 4, 3 << 24] {
        assert_eq!(start(b"GGUF", got), Err(Fault::Version { got }));
    }
}

#[test]
fn counts_are_refused_over_their_limit_and_where_no_bytes_are_left_for_them() {
    for (tensors, keys, what, limit, least) in
        [(1, 0, "tensors", TENSORS_MAX, 32), (0, 1, "keys", KEYS_MAX, 13)]
    {
        let counted = |count| made().counted(tensors * count, keys * count);
        for count in [limit + 1, u64::MAX] {
            assert_eq!(counted(count).fault(), too_many(what, count, limit));
        }
        // As many as may be, and names of nothing: it is the first name that is refused.
        let fault = counted(limit).fault();
        assert!(matches!(fault, Fault::Text { .. }), "{fault}");
        let (needed, left) = (2 * least, 2 * least - 1);
        let fault = counted(2).in_file_of(24 + left).expect_err("it is read");
        assert_eq!(fault, truncated(what, needed, left));
        let fault = counted(2).in_file_of(24 + needed).expect_err("it is read");
        assert!(matches!(fault, Fault::Text { .. }), "{fault}");
    }
}

#[test]
fn a_header_may_be_as_long_as_its_file_and_no_longer() {
    let made = made().key("a", 8, &[]).text(b"word");
    let length = made.whole().len() as u64;
    assert_eq!(made.in_file_of(length).unwrap().text("a"), Ok(Some("word")));
    let fault = made.in_file_of(length - 1).expect_err("it is read");
    assert_eq!(fault, truncated("a", 4, 3));
    // Nothing is read behind the end of a file, wherever that is.
    let made = made.key("b", 10, &[7; 8]).list("c", 5, 1, &[1; 4]).tensor("d", &[1], 24, 0);
    for length in 0..made.whole().len() as u64 {
        let cut = made.in_file_of(length).expect_err("it is read");
        assert!(matches!(cut, Fault::Truncated { .. }), "{length}: {cut}");
    }
    // The file says that it is longer than it is.
    let bytes = made.whole();
    let cut = Header::read(&bytes[..bytes.len() - 1], LONG).expect_err("it is read");
    assert!(matches!(cut, Fault::Read { kind: io::ErrorKind::UnexpectedEof, .. }), "{cut}");
    let bytes = self::made().list("a", 0, 100, &[0; 99]).whole();
    let cut = Header::read(&bytes[..], LONG).expect_err("it is read");
    assert!(matches!(cut, Fault::Read { kind: io::ErrorKind::UnexpectedEof, .. }), "{cut}");
}

#[test]
fn a_header_has_no_more_than_32_mib() {
    let made = |length| made().list("a", 0, length, &[]);
    let room = HEADER_BYTES_MAX - made(0).whole().len() as u64;
    let header = made(room).read().unwrap();
    assert_eq!(header.value("a"), Some(&Value::Unused { type_id: 0, length: room }));
    assert_eq!(header.data_start(), HEADER_BYTES_MAX);
    let limit = HEADER_BYTES_MAX;
    assert_eq!(made(room + 1).fault(), too_many("bytes of header", limit + 1, limit));
    // No number is so large that its product with eight comes round to a small one.
    for kind in [10, 11, 12] {
        for length in [1 << 61, u64::MAX / 8 + 2, u64::MAX] {
            let left = LONG - made(0).whole().len() as u64;
            let fault = self::made().list("a", kind, length, &[]).fault();
            assert_eq!(fault, truncated("a", length.saturating_mul(8), left));
        }
    }
}

#[test]
fn names_have_a_length_and_are_texts() {
    let key = |bytes: &[u8]| made().counted(0, 1).text(bytes).word(0).put(&[7]).read();
    let longest = "k".repeat(KEY_BYTES_MAX as usize);
    let header = key(longest.as_bytes()).unwrap();
    assert_eq!(header.keys().collect::<Vec<_>>(), [&longest]);
    assert_eq!(header.number(&longest), Ok(Some(7)));
    let long = [longest.as_bytes(), b"k"].concat();
    let fault = too_many("the length of a key", KEY_BYTES_MAX + 1, KEY_BYTES_MAX);
    assert_eq!(key(&long).expect_err("it is read"), fault);
    for none in [&b""[..], b"\xff"] {
        assert_eq!(key(none).expect_err("it is read"), no_text("a key"));
    }
    let longest = "t".repeat(TENSOR_NAME_BYTES_MAX as usize);
    assert!(made().tensor(&longest, &[1], 0, 0).read().is_ok());
    let limit = TENSOR_NAME_BYTES_MAX;
    let fault = too_many("the length of a tensor name", limit + 1, limit);
    assert_eq!(made().tensor(&format!("{longest}t"), &[1], 0, 0).fault(), fault);
    assert_eq!(made().tensor("", &[1], 0, 0).fault(), no_text("a tensor name"));
}

#[test]
fn nothing_is_there_twice() {
    let twice = made().key("a", 0, &[1]).key("b", 0, &[1]).key("a", 0, &[1]);
    assert_eq!(twice.fault(), Fault::DuplicateKey { key: "a".to_owned() });
    let twice = made().tensor("a", &[8], 0, 0).tensor("b", &[8], 0, 32).tensor("a", &[8], 0, 64);
    assert_eq!(twice.fault(), Fault::DuplicateTensor { tensor: "a".to_owned() });
}

#[test]
fn every_type_of_value_is_read_as_what_it_is_and_no_other_is() {
    for (kind, bytes, value) in [
        (0, vec![200], Value::Unsigned(200)),
        (1, vec![200], Value::Signed(-56)),
        (2, vec![1, 200], Value::Unsigned(51_201)),
        (3, vec![1, 200], Value::Signed(-14_335)),
        (4, vec![1, 0, 0, 200], Value::Unsigned(3_355_443_201)),
        (5, vec![1, 0, 0, 200], Value::Signed(-939_524_095)),
        (6, 1.5_f32.to_le_bytes().to_vec(), Value::Float(1.5)),
        (7, vec![0], Value::Bool(false)),
        (7, vec![1], Value::Bool(true)),
        (8, made().text(b"word").bytes, Value::Text("word".to_owned())),
        (10, u64::MAX.to_le_bytes().to_vec(), Value::Unsigned(u64::MAX)),
        (11, i64::MIN.to_le_bytes().to_vec(), Value::Signed(i64::MIN)),
        (12, 1e300_f64.to_le_bytes().to_vec(), Value::Float(1e300)),
    ] {
        // The key behind it is found: as many bytes were read as it has.
        let header = made().key("a", kind, &bytes).key("b", 0, &[9]).read().unwrap();
        assert_eq!(header.value("a"), Some(&value), "{kind}");
        assert_eq!(header.number("b"), Ok(Some(9)), "{kind}");
        assert!(!value.is_list());
    }
    for type_id in [13, 14, u32::MAX] {
        let fault = Fault::ValueType { key: "a".to_owned(), type_id };
        assert_eq!(made().key("a", type_id, &[0; 64]).fault(), fault);
    }
    for truth in [2, 255] {
        for made in [made().key("a", 7, &[truth]), made().list("a", 7, 1, &[truth])] {
            let fault = made.fault();
            assert!(matches!(&fault, Fault::BadValue { key, .. } if key == "a"), "{fault}");
        }
    }
}

#[test]
fn every_type_of_list_is_read_as_what_it_is_and_no_other_is() {
    let texts = made().text(b"one").text(b"").bytes;
    let words = made().word(1).word(u32::MAX).bytes;
    let unused = |type_id| Value::Unused { type_id, length: 2 };
    for (kind, entries, value) in [
        (0, vec![1; 2], unused(0)),
        (1, vec![1; 2], unused(1)),
        (2, vec![1; 4], unused(2)),
        (3, vec![1; 4], unused(3)),
        (4, words.clone(), Value::Unsigneds(vec![1, u32::MAX])),
        (5, words, Value::Signeds(vec![1, -1])),
        (6, [1.5_f32, -0.5].map(f32::to_le_bytes).concat(), Value::Floats(vec![1.5, -0.5])),
        (7, vec![1, 0], Value::Bools(vec![true, false])),
        (8, texts, Value::Texts(vec!["one".to_owned(), String::new()])),
        (10, vec![1; 16], unused(10)),
        (11, vec![1; 16], unused(11)),
        (12, vec![1; 16], unused(12)),
    ] {
        let header = made().list("a", kind, 2, &entries).key("b", 0, &[9]).read().unwrap();
        assert_eq!(header.value("a"), Some(&value), "{kind}");
        assert_eq!(header.number("b"), Ok(Some(9)), "{kind}");
        assert!(value.is_list());
    }
    // Lists of lists are none.
    for type_id in [9, 13, u32::MAX] {
        let fault = Fault::ValueType { key: "a".to_owned(), type_id };
        assert_eq!(made().list("a", type_id, 0, &[]).fault(), fault);
    }
}

#[test]
fn lists_that_are_kept_have_a_length_and_the_others_do_not() {
    for kind in [4, 5, 6, 7, 8] {
        assert!(made().list("a", kind, LIST_MAX, &[]).read().is_ok(), "{kind}");
        let fault = made().list("a", kind, LIST_MAX + 1, &[]).fault();
        assert_eq!(fault, too_many("a", LIST_MAX + 1, LIST_MAX), "{kind}");
    }
    for type_id in [0, 1, 2, 3, 10, 11, 12] {
        let length = LIST_MAX + 1;
        let header = made().list("a", type_id, length, &[]).read().unwrap();
        assert_eq!(header.value("a"), Some(&Value::Unused { type_id, length }));
    }
    // Texts of nothing, in two lists.
    let rest = LISTED_TEXTS_MAX - 3;
    let both = |more| made().list("a", 8, 3, &[0; 24]).list("b", 8, rest + more, &[]);
    assert!(both(0).read().is_ok());
    let limit = LISTED_TEXTS_MAX;
    assert_eq!(both(1).fault(), too_many("texts in lists", limit + 1, limit));
    // Those that were read already need no bytes any more.
    let both = made().list("a", 8, 20, &[0; 160]).list("b", 8, 1, &[0; 8]);
    assert!(both.in_file_of(both.whole().len() as u64).is_ok());
    // As many bytes as the entries have at least must be there.
    for (kind, least) in [(4, 4), (5, 4), (6, 4), (7, 1), (8, 8), (0, 1), (2, 2), (11, 8)] {
        let made = made().list("a", kind, 10, &[]);
        let length = made.whole().len() as u64;
        assert!(made.in_file_of(length + 10 * least).is_ok(), "{kind}");
        let fault = made.in_file_of(length + 10 * least - 1).expect_err("it is read");
        assert_eq!(fault, truncated("a", 10 * least, 10 * least - 1), "{kind}");
    }
}

#[test]
fn tensors_are_aligned_as_the_file_says_where_it_says_something_sane() {
    let made = |kind, alignment: &[u8]| made().key("general.alignment", kind, alignment);
    for alignment in [8, 16, 32, 64, 4096_u32] {
        let with = made(4, &alignment.to_le_bytes());
        let end = with.clone().tensor("a", &[1], 0, 0).whole().len() as u64;
        let alignment = u64::from(alignment);
        let header = with.clone().tensor("a", &[1], 0, alignment).read().unwrap();
        assert_eq!(header.data_start(), end.next_multiple_of(alignment));
        let start = header.data_start() + alignment;
        assert_eq!(header.tensor("a").map(|tensor| tensor.start), Some(start));
        let fault = with.tensor("a", &[1], 0, alignment / 2).fault();
        assert!(matches!(fault, Fault::Place { problem: "not aligned", .. }), "{fault}");
    }
    for alignment in [0, 1, 4, 7, 24, 33, 8192_u32] {
        let fault = made(4, &alignment.to_le_bytes()).fault();
        assert!(matches!(fault, Fault::BadValue { .. }), "{alignment}: {fault}");
    }
    assert!(matches!(made(5, &32_i32.to_le_bytes()).fault(), Fault::BadValue { .. }));
    // Without a word about it: 32.
    let header = self::made().tensor("a", &[1], 0, 32).read().unwrap();
    assert_eq!(header.data_start(), 64);
    assert!(self::made().tensor("a", &[1], 0, 16).read().is_err());
}

#[test]
fn tensors_lie_inside_the_file_and_apart() {
    // Two of 32 bytes: the data begin at 96.
    let two = |first, second| made().tensor("a", &[8], 0, first).tensor("b", &[8], 0, second);
    let at = |header: &Header, name| header.tensor(name).unwrap().start;
    let header = two(32, 0).in_file_of(160).unwrap();
    assert_eq!((header.data_start(), header.file_bytes()), (96, 160));
    assert_eq!((at(&header, "a"), at(&header, "b")), (128, 96));
    let order: Vec<_> = header.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(order, ["b", "a"]);
    let place = |made: Made, file_bytes| match made.in_file_of(file_bytes) {
        Err(Fault::Place { tensor, offset, problem }) => (tensor, offset, problem),
        other => panic!("{other:?}"),
    };
    let (name, outside) = ("a".to_owned(), "past the end of the file");
    assert_eq!(place(two(32, 0), 159), (name.clone(), 32, outside));
    for offset in [u64::MAX - 31, u64::MAX - 127, 1 << 63] {
        assert_eq!(place(two(offset, 0), LONG), (name.clone(), offset, outside));
    }
    // One more number, and it ends in the other.
    let inside = (name, 32, "inside another tensor");
    let over = made().tensor("a", &[8], 0, 32).tensor("b", &[9], 0, 0);
    assert_eq!(place(over, LONG), inside);
    assert_eq!(place(two(0, 0), LONG).2, "inside another tensor");
}

#[test]
fn dimensions_are_one_to_four_and_their_product_is_possible() {
    let of = |dimensions: &[u64], kind| {
        let header = made().tensor("a", dimensions, kind, 0).read();
        header.map(|header| header.tensor("a").unwrap().bytes)
    };
    assert_eq!(of(&[5], 0), Ok(20));
    assert_eq!(of(&[5, 2, 3, 7], 1), Ok(420));
    assert_eq!(of(&[64, 3], 8), Ok(204));
    for count in [0, 5, u32::MAX] {
        let fault = made().counted(1, 0).text(b"a").word(count).put(&[1; 64]).fault();
        assert_eq!(fault, too_many("dimensions of a", u64::from(count), 4));
    }
    assert_eq!(of(&[ELEMENTS_MAX], 24), Ok(ELEMENTS_MAX));
    assert_eq!(of(&[1 << 20, 1 << 20], 24), Ok(ELEMENTS_MAX));
    for (impossible, kind) in [
        (&[0][..], 0),
        (&[8, 0], 0),
        (&[ELEMENTS_MAX + 1], 24),
        (&[2, ELEMENTS_MAX / 2 + 1], 24),
        // These come round to 32, and to nothing.
        (&[32, (1 << 59) + 1], 0),
        (&[1, 1 << 32, 1 << 32], 0),
        (&[8, 1 << 32, 1 << 32, 3], 0),
        // Half a block.
        (&[33], 8),
        (&[16, 2], 8),
    ] {
        let fault = of(impossible, kind).expect_err("it is read");
        let dimensions = impossible.to_vec();
        assert_eq!(fault, Fault::Dimensions { tensor: "a".to_owned(), dimensions });
    }
}

/// Number, name, numbers in a block and bytes of a block, as in `ggml.h` and `ggml-common.h`.
const TYPES: [(u32, &str, u64, u64); 35] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
];

#[test]
fn types_of_tensors_have_the_numbers_and_sizes_of_ggml() {
    let known = (0..1000).filter_map(TensorType::from_id);
    let known = known.map(|kind| (kind.id(), kind.name()));
    assert!(known.eq(TYPES.map(|(id, name, ..)| (id, name))));
    for (id, name, elements, bytes) in TYPES {
        let kind = TensorType::from_id(id).unwrap();
        assert_eq!(kind.bytes(elements, 1), Some(bytes), "{name}");
        assert_eq!(kind.bytes(3 * elements, 5), Some(15 * bytes), "{name}");
        for part in 1..elements {
            assert_eq!(kind.bytes(part, 1), None, "{name}");
        }
        let rows = u64::MAX / bytes;
        assert_eq!(kind.bytes(elements, rows), Some(rows * bytes), "{name}");
        let more = rows.checked_add(1).and_then(|rows| kind.bytes(elements, rows));
        assert_eq!(more, None, "{name}");
    }
    for format in Format::ALL {
        assert_eq!(TensorType::from_format(format).and_then(TensorType::format), Some(format));
    }
    let fault = Fault::TensorType { tensor: "a".to_owned(), type_id: 4 };
    assert_eq!(made().tensor("a", &[32], 4, 0).fault(), fault);
}

#[test]
fn values_are_handed_out_as_what_they_are_and_as_nothing_else() {
    let header = made()
        .key("text", 8, &made().text(b"word").bytes)
        .key("number", 4, &7_u32.to_le_bytes())
        .key("signed", 5, &7_i32.to_le_bytes())
        .key("negative", 5, &(-7_i32).to_le_bytes())
        .key("largest", 10, &u64::from(u32::MAX).to_le_bytes())
        .key("large", 10, &(1_u64 << 32).to_le_bytes())
        .key("float", 6, &1.5_f32.to_le_bytes())
        .key("truth", 7, &[1])
        .key("untruth", 7, &[0])
        .read()
        .unwrap();
    let bad =
        |key: &str, fault: Fault| matches!(fault, Fault::BadValue { key: of, .. } if of == key);
    for key in ["text", "number", "signed", "negative", "largest", "large", "float", "truth"] {
        let number = match key {
            "number" | "signed" => Some(7),
            "largest" => Some(u32::MAX),
            _ => None,
        };
        assert_eq!(header.number(key).ok(), number.map(Some), "{key}");
        assert_eq!(header.required_number(key).ok(), number, "{key}");
        let text = (key == "text").then_some("word");
        assert_eq!(header.text(key).ok(), text.map(Some), "{key}");
        assert_eq!(header.required_text(key).ok(), text, "{key}");
        let float = (key == "float").then_some(1.5);
        assert_eq!(header.float(key).ok(), float.map(Some), "{key}");
        assert_eq!(header.required_float(key).ok(), float, "{key}");
        assert_eq!(header.truth(key).ok(), (key == "truth").then_some(Some(true)), "{key}");
    }
    assert_eq!(header.truth("untruth"), Ok(Some(false)));
    assert!(bad("large", header.number("large").expect_err("it fits")));
    assert!(bad("number", header.required_text("number").expect_err("it is one")));
    assert_eq!(header.number("absent"), Ok(None));
    let missing = Fault::MissingKey { key: "absent".to_owned() };
    assert_eq!(header.required_number("absent").expect_err("it is there"), missing);
    assert_eq!(header.required_text("absent").expect_err("it is there"), missing);
    assert_eq!(header.required_float("absent").expect_err("it is there"), missing);
}

/// What is told of a value may stand in a log.
#[test]
fn of_a_long_text_only_its_length_is_told() {
    let told = |length: usize| Value::Text("x".repeat(length)).summary();
    assert_eq!(told(40), format!("the text {:?}", "x".repeat(40)));
    assert_eq!(told(41), "a text of 41 bytes");
}
