//! What Python's Jinja makes where minijinja makes a list: something to run over, and no more.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, Value};

/// The items that `map`, `select` and their like give.
#[derive(Debug)]
pub(super) struct Generator(Vec<Value>);

impl Generator {
    /// The items of `list` as a generator.
    pub(super) fn from_list(list: Value) -> Result<Value, Error> {
        Ok(Value::from_object(Self(list.try_iter()?.collect())))
    }

    /// Whether `value` is one.
    pub(super) fn is(value: &Value) -> bool {
        value.downcast_object_ref::<Self>().is_some()
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.clone())
    }

    /// In Python every generator is true, also one that gives nothing.
    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}
