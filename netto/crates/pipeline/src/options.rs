//! Options of features: values whose types only the features know.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// One feature's options.
trait Value: Any + Debug + Send + Sync {
    fn is(&self, other: &dyn Value) -> bool;
}

impl<T: Any + Debug + PartialEq + Send + Sync> Value for T {
    fn is(&self, other: &dyn Value) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

/// The options of features, by name; a feature without options uses its defaults.
#[derive(Debug, Clone, Default)]
pub struct FeatureOptions(BTreeMap<&'static str, Arc<dyn Value>>);

impl FeatureOptions {
    /// Adds the options of a feature.
    #[must_use]
    pub fn with<T>(mut self, feature: &'static str, options: T) -> Self
    where
        T: Any + Debug + PartialEq + Send + Sync,
    {
        self.0.insert(feature, Arc::new(options));
        self
    }

    /// The options of a feature; `None` if it has none.
    pub fn of<T: Any>(&self, feature: &str) -> Option<&T> {
        let options: &dyn Any = &**self.0.get(feature)?;
        options.downcast_ref()
    }

    /// Features whose options differ in `later`, or are present in only one of the two.
    pub fn changed(&self, later: &FeatureOptions) -> Vec<&'static str> {
        let names = self.0.keys().chain(later.0.keys());
        let mut changed: Vec<&'static str> = names
            .copied()
            .filter(|name| match (self.0.get(name), later.0.get(name)) {
                (Some(before), Some(after)) => !before.is(&**after),
                _ => true,
            })
            .collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_finds_its_own_options_by_name_and_type() {
        let options = FeatureOptions::default().with("tides", 7_u32);
        assert_eq!(options.of::<u32>("tides"), Some(&7));
        assert_eq!(options.of::<u64>("tides"), None);
        assert_eq!(options.of::<u32>("moon"), None);
    }

    #[test]
    fn options_that_change_come_or_go_are_named_and_others_are_not() {
        let before = FeatureOptions::default().with("gone", ());
        let before = before.with("kept", "as it is").with("other", 1);
        let after = FeatureOptions::default().with("kept", "as it is");
        let after = after.with("other", 2).with("new", true);
        assert_eq!(before.changed(&after), ["gone", "new", "other"]);
        assert!(before.changed(&before.clone()).is_empty());
    }
}
