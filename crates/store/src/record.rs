//! Values as JSON records, so that an operator can read the store with any tool.

use serde::{Serialize, de::DeserializeOwned};

use crate::{StoreError, Txn, Versioned};

impl Txn {
    /// Sets `key` to `record` as JSON.
    ///
    /// # Errors
    /// [`StoreError::Record`] if `record` has no JSON form.
    pub fn put_record<T: Serialize>(self, key: &str, record: &T) -> Result<Self, StoreError> {
        let value = serde_json::to_vec(record).map_err(|source| invalid::<T>(key, source))?;
        Ok(self.put(key, value))
    }
}

impl Versioned {
    /// The value of `key` as the record that [`Txn::put_record`] wrote.
    ///
    /// # Errors
    /// [`StoreError::Record`], naming the key, if it is none.
    pub fn record<T: DeserializeOwned>(&self, key: &str) -> Result<T, StoreError> {
        serde_json::from_slice(&self.value).map_err(|source| invalid::<T>(key, source))
    }
}

fn invalid<T>(key: &str, source: serde_json::Error) -> StoreError {
    StoreError::Record { key: key.into(), record: std::any::type_name::<T>(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;

    #[test]
    fn records_round_trip_and_rubbish_names_its_key() {
        let txn = Txn::new().put_record("steps/1", &vec![1.5, 0.1]).expect("numbers have a form");
        let value = txn.writes["steps/1"].clone().expect("a put");
        let read = |value| Versioned { value, revision: Revision(1) }.record::<Vec<f64>>("steps/1");
        assert_eq!(read(value).expect("as written"), [1.5, 0.1]);
        let error = read(b"[1.5".to_vec()).expect_err("cut off");
        assert_eq!(error.code(), "record");
        assert!(error.to_string().starts_with("\"steps/1\" does not hold a valid"), "{error}");
    }
}
