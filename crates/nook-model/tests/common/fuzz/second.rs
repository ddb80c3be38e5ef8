//! A second reader of headers, written apart from the first: it knows no limits and refuses
//! nothing, it only finds out what a file that was let through says.

use nook_model::gguf::{ELEMENTS_MAX, Header, Value};

/// One tensor's entry.
struct Entry {
    name: String,
    dimensions: Vec<u64>,
    kind: u32,
    offset: u64,
}

/// Checks a header that was let through: it says what the bytes say, and every tensor has a sane
/// shape and lies aligned, inside the file and apart from the others.
pub(super) fn check(header: &Header, bytes: &[u8]) -> Result<(), String> {
    let (entries, end) = entries(bytes).ok_or("its header cannot be read")?;
    let alignment = match header.value("general.alignment") {
        Some(Value::Unsigned(alignment)) => *alignment,
        Some(other) => return Err(format!("its alignment is {}", other.summary())),
        None => 32,
    };
    let data = header.data_start();
    if alignment == 0 || data != (end as u64).div_ceil(alignment) * alignment {
        return Err(format!("its data begin at {data}, its header ends at {end}"));
    }
    if entries.len() != header.tensors().len() {
        return Err(format!("{} tensors became {}", entries.len(), header.tensors().len()));
    }
    let mut taken = Vec::new();
    for entry in &entries {
        let name = &entry.name;
        let tensor = header.tensor(name).ok_or_else(|| format!("the tensor {name} is lost"))?;
        let elements = entry.dimensions.iter().map(|d| u128::from(*d)).product::<u128>();
        let rows = entry.dimensions[1..].iter().product();
        if tensor.dimensions != entry.dimensions
            || elements == 0
            || elements > u128::from(ELEMENTS_MAX)
            || tensor.kind.id() != entry.kind
            || tensor.kind.bytes(entry.dimensions[0], rows) != Some(tensor.bytes)
        {
            return Err(format!("the tensor {name} has no sane shape"));
        }
        let start = u128::from(data) + u128::from(entry.offset);
        let end = start + u128::from(tensor.bytes);
        if start != u128::from(tensor.start)
            || !entry.offset.is_multiple_of(alignment)
            || end > bytes.len() as u128
        {
            return Err(format!("the tensor {name} does not lie in the file"));
        }
        taken.push((start, end));
    }
    taken.sort_unstable();
    match taken.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(format!("tensors overlap at {}", pair[1].0)),
        None => Ok(()),
    }
}

/// The tensors of a header, and where it ends.
fn entries(bytes: &[u8]) -> Option<(Vec<Entry>, usize)> {
    let mut cursor = Cursor { bytes, at: 8 };
    let (tensors, keys) = (cursor.long()?, cursor.long()?);
    for _ in 0..keys {
        cursor.text()?;
        let kind = cursor.word()?;
        cursor.value(kind)?;
    }
    let mut entries = Vec::new();
    for _ in 0..tensors {
        let name = String::from_utf8(cursor.text()?.to_vec()).ok()?;
        let count = cursor.word()?;
        let dimensions = (0..count).map(|_| cursor.long()).collect::<Option<Vec<_>>>()?;
        if dimensions.is_empty() {
            return None;
        }
        entries.push(Entry { name, dimensions, kind: cursor.word()?, offset: cursor.long()? });
    }
    Some((entries, cursor.at))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.long()?;
        self.take(length)
    }

    fn value(&mut self, kind: u32) -> Option<()> {
        match kind {
            0 | 1 | 7 => self.take(1)?,
            2 | 3 => self.take(2)?,
            4..=6 => self.take(4)?,
            8 => self.text()?,
            9 => {
                let (kind, count) = (self.word()?, self.long()?);
                (0..count).try_for_each(|_| self.value(kind))?;
                &[]
            }
            10..=12 => self.take(8)?,
            _ => return None,
        };
        Some(())
    }
}
