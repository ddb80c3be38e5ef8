//! The strict, bounded, streaming reader behind [`Header::read`].

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

use super::{
    DIMENSIONS_MAX, ELEMENTS_MAX, HEADER_BYTES_MAX, Header, KEY_BYTES_MAX, KEYS_MAX, LIST_MAX,
    LISTED_TEXTS_MAX, TENSOR_NAME_BYTES_MAX, TENSORS_MAX, TensorInfo, TensorType, Value,
};
use crate::error::Fault;

pub(super) const MAGIC: u32 = 0x4655_4747;
const ALIGNMENT_KEY: &str = "general.alignment";
const ALIGNMENT_USUAL: u64 = 32;

/// Fewest bytes of one key with its value, and of one tensor's entry: bounds for the counts.
const ENTRY_BYTES_MIN: u64 = 13;
const TENSOR_BYTES_MIN: u64 = 32;

impl Header {
    /// Reads the header of a file of `file_bytes` bytes from its beginning. Reads no tensor data.
    pub fn read(file: impl Read, file_bytes: u64) -> Result<Self, Fault> {
        Self::read_noting(file, file_bytes, |_, _| {})
    }

    /// As [`Self::read`]; `note` hears of each key with its value where in the file they lie.
    pub(crate) fn read_noting(
        file: impl Read,
        file_bytes: u64,
        note: impl FnMut(&str, Range<u64>),
    ) -> Result<Self, Fault> {
        let input = BufReader::new(file);
        let mut source = Source { input, at: 0, end: file_bytes, listed_texts: 0 };
        if source.u32("the magic number")? != MAGIC {
            return Err(Fault::NotGguf);
        }
        let version = source.u32("the version")?;
        if !(2..=3).contains(&version) {
            return Err(Fault::Version { got: version });
        }
        let tensor_count = source.u64("the tensor count")?;
        let key_count = source.u64("the key count")?;
        source.check_count("tensors", tensor_count, TENSORS_MAX, TENSOR_BYTES_MIN)?;
        source.check_count("keys", key_count, KEYS_MAX, ENTRY_BYTES_MIN)?;

        let metadata = source.metadata(key_count, note)?;
        let alignment = alignment(&metadata)?;
        let mut tensors = Vec::with_capacity(tensor_count as usize);
        for _ in 0..tensor_count {
            tensors.push(source.tensor()?);
        }
        let data_start = source.at.next_multiple_of(alignment);
        place(&mut tensors, data_start, alignment, file_bytes)?;
        let by_name = names(&tensors)?;
        Ok(Self { version, metadata, tensors, by_name, data_start, file_bytes })
    }
}

/// The alignment of tensor data.
pub(super) fn alignment(metadata: &HashMap<String, Value>) -> Result<u64, Fault> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else {
        return Ok(ALIGNMENT_USUAL);
    };
    match value {
        Value::Unsigned(number) if number.is_power_of_two() && (8..=4096).contains(number) => {
            Ok(*number)
        }
        other => Err(Fault::BadValue {
            key: ALIGNMENT_KEY.to_owned(),
            got: other.summary(),
            expected: "a power of two from 8 to 4096".to_owned(),
        }),
    }
}

/// Turns offsets into places in the file, sorts by them, and refuses what is not aligned, not
/// inside the file or not apart.
fn place(
    tensors: &mut [TensorInfo],
    data_start: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<(), Fault> {
    for tensor in tensors.iter_mut() {
        let offset = tensor.start;
        let fault = |problem| Fault::Place { tensor: tensor.name.clone(), offset, problem };
        if !offset.is_multiple_of(alignment) {
            return Err(fault("not aligned"));
        }
        let start = offset.checked_add(data_start);
        let end = start.and_then(|start| start.checked_add(tensor.bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= file_bytes => tensor.start = start,
            _ => return Err(fault("past the end of the file")),
        }
    }
    tensors.sort_by_key(|tensor| tensor.start);
    for pair in tensors.windows(2) {
        if pair[0].start + pair[0].bytes > pair[1].start {
            return Err(Fault::Place {
                tensor: pair[1].name.clone(),
                offset: pair[1].start - data_start,
                problem: "inside another tensor",
            });
        }
    }
    Ok(())
}

fn names(tensors: &[TensorInfo]) -> Result<HashMap<String, usize>, Fault> {
    let mut by_name = HashMap::with_capacity(tensors.len());
    for (index, tensor) in tensors.iter().enumerate() {
        if by_name.insert(tensor.name.clone(), index).is_some() {
            return Err(Fault::DuplicateTensor { tensor: tensor.name.clone() });
        }
    }
    Ok(by_name)
}

struct Source<R> {
    input: BufReader<R>,
    /// Bytes read.
    at: u64,
    /// Length of the file.
    end: u64,
    /// Texts in all lists so far.
    listed_texts: u64,
}

impl<R: Read> Source<R> {
    /// Refuses `count` things of at least `least` bytes that are over the limit or cannot be there.
    fn check_count(&self, what: &str, count: u64, limit: u64, least: u64) -> Result<(), Fault> {
        if count > limit {
            return Err(Fault::TooMany { what: what.to_owned(), got: count, limit });
        }
        self.check_left(what, count.saturating_mul(least))
    }

    /// Refuses when fewer than `needed` bytes are left in the file or in what a header may have.
    fn check_left(&self, inside: &str, needed: u64) -> Result<(), Fault> {
        let left = self.end.saturating_sub(self.at);
        if needed > left {
            return Err(Fault::Truncated { inside: inside.to_owned(), needed, left });
        }
        let total = self.at.saturating_add(needed);
        if total > HEADER_BYTES_MAX {
            return Err(Fault::TooMany {
                what: "bytes of header".to_owned(),
                got: total,
                limit: HEADER_BYTES_MAX,
            });
        }
        Ok(())
    }

    fn fill(&mut self, inside: &str, bytes: &mut [u8]) -> Result<(), Fault> {
        self.check_left(inside, bytes.len() as u64)?;
        self.input.read_exact(bytes).map_err(Fault::read("reading the header"))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, inside: &str) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.fill(inside, &mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self, inside: &str) -> Result<u32, Fault> {
        self.array(inside).map(u32::from_le_bytes)
    }

    fn u64(&mut self, inside: &str) -> Result<u64, Fault> {
        self.array(inside).map(u64::from_le_bytes)
    }

    /// A text of at most `limit` bytes.
    fn text(&mut self, what: &str, limit: u64) -> Result<String, Fault> {
        let length = self.u64(what)?;
        if length > limit {
            return Err(Fault::TooMany {
                what: format!("the length of {what}"),
                got: length,
                limit,
            });
        }
        self.check_left(what, length)?;
        let mut bytes = vec![0; length as usize];
        self.fill(what, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Fault::Text { what: what.to_owned() })
    }

    fn metadata(
        &mut self,
        count: u64,
        mut note: impl FnMut(&str, Range<u64>),
    ) -> Result<HashMap<String, Value>, Fault> {
        let mut metadata = HashMap::with_capacity(count as usize);
        for _ in 0..count {
            let from = self.at;
            let key = self.text("a key", KEY_BYTES_MAX)?;
            if key.is_empty() {
                return Err(Fault::Text { what: "a key".to_owned() });
            }
            let type_id = self.u32(&key)?;
            let value = self.value(&key, type_id)?;
            if metadata.contains_key(&key) {
                return Err(Fault::DuplicateKey { key });
            }
            note(&key, from..self.at);
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    fn value(&mut self, key: &str, type_id: u32) -> Result<Value, Fault> {
        Ok(match type_id {
            0 => Value::Unsigned(u64::from(self.array::<1>(key)?[0])),
            1 => Value::Signed(i64::from(i8::from_le_bytes(self.array(key)?))),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(self.array(key)?))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(self.array(key)?))),
            4 => Value::Unsigned(u64::from(self.u32(key)?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(self.array(key)?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.array(key)?))),
            7 => Value::Bool(self.truth(key)?),
            8 => Value::Text(self.text(key, HEADER_BYTES_MAX)?),
            9 => self.values(key)?,
            10 => Value::Unsigned(self.u64(key)?),
            11 => Value::Signed(i64::from_le_bytes(self.array(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(key)?)),
            _ => {
                return Err(Fault::ValueType { key: key.to_owned(), type_id });
            }
        })
    }

    /// An array. Arrays of arrays are refused: no model uses them, and they invite deep recursion.
    fn values(&mut self, key: &str) -> Result<Value, Fault> {
        let type_id = self.u32(key)?;
        let length = self.u64(key)?;
        let least: u64 = match type_id {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            _ => {
                return Err(Fault::ValueType { key: key.to_owned(), type_id });
            }
        };
        if matches!(type_id, 4..=8) {
            self.check_count(key, length, LIST_MAX, least)?;
        } else {
            self.check_left(key, length.saturating_mul(least))?;
        }
        let count = length as usize;
        Ok(match type_id {
            4 => Value::Unsigneds(self.many(key, count, u32::from_le_bytes)?),
            5 => Value::Signeds(self.many(key, count, i32::from_le_bytes)?),
            6 => Value::Floats(self.many(key, count, f32::from_le_bytes)?),
            7 => {
                let mut truths = Vec::with_capacity(count);
                for _ in 0..count {
                    truths.push(self.truth(key)?);
                }
                Value::Bools(truths)
            }
            8 => {
                let listed = self.listed_texts.saturating_add(length);
                self.check_count("texts in lists", listed, LISTED_TEXTS_MAX, 0)?;
                self.listed_texts = listed;
                let mut texts = Vec::with_capacity(count);
                for _ in 0..count {
                    texts.push(self.text(key, HEADER_BYTES_MAX)?);
                }
                Value::Texts(texts)
            }
            _ => {
                self.skip(length * least)?;
                Value::Unused { type_id, length }
            }
        })
    }

    fn truth(&mut self, key: &str) -> Result<bool, Fault> {
        match self.array(key)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Fault::BadValue {
                key: key.to_owned(),
                got: other.to_string(),
                expected: "true or false".to_owned(),
            }),
        }
    }

    fn many<T>(
        &mut self,
        key: &str,
        count: usize,
        read: impl Fn([u8; 4]) -> T,
    ) -> Result<Vec<T>, Fault> {
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            numbers.push(read(self.array(key)?));
        }
        Ok(numbers)
    }

    /// Passes over `bytes` bytes that were seen to be there.
    fn skip(&mut self, bytes: u64) -> Result<(), Fault> {
        let doing = "reading the header";
        let mut left = bytes;
        while left > 0 {
            let buffered = self.input.fill_buf().map_err(Fault::read(doing))?.len();
            if buffered == 0 {
                return Err(Fault::Read { doing, kind: std::io::ErrorKind::UnexpectedEof });
            }
            let step = (buffered as u64).min(left);
            self.input.consume(step as usize);
            self.at += step;
            left -= step;
        }
        Ok(())
    }

    /// One tensor's entry; its `start` is still the offset in the data.
    fn tensor(&mut self) -> Result<TensorInfo, Fault> {
        let name = self.text("a tensor name", TENSOR_NAME_BYTES_MAX)?;
        if name.is_empty() {
            return Err(Fault::Text { what: "a tensor name".to_owned() });
        }
        let count = self.u32(&name)?;
        if count == 0 || count > DIMENSIONS_MAX {
            return Err(Fault::TooMany {
                what: format!("dimensions of {name}"),
                got: u64::from(count),
                limit: u64::from(DIMENSIONS_MAX),
            });
        }
        let mut dimensions = Vec::with_capacity(count as usize);
        for _ in 0..count {
            dimensions.push(self.u64(&name)?);
        }
        let type_id = self.u32(&name)?;
        let start = self.u64(&name)?;
        let Some(kind) = TensorType::from_id(type_id) else {
            return Err(Fault::TensorType { tensor: name, type_id });
        };
        match size(&dimensions, kind) {
            Some(bytes) => Ok(TensorInfo { name, dimensions, kind, start, bytes }),
            None => Err(Fault::Dimensions { tensor: name, dimensions }),
        }
    }
}

/// Bytes of a tensor, if its dimensions are possible.
fn size(dimensions: &[u64], kind: TensorType) -> Option<u64> {
    let (columns, outer) = dimensions.split_first()?;
    let rows = outer.iter().try_fold(1u64, |rows, dimension| rows.checked_mul(*dimension))?;
    let elements = columns.checked_mul(rows)?;
    if elements == 0 || elements > ELEMENTS_MAX {
        return None;
    }
    kind.bytes(*columns, rows)
}
