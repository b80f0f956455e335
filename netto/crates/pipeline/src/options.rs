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

    /// With those of these features as `others` has them.
    #[must_use]
    pub fn taking(mut self, features: &[&'static str], others: &FeatureOptions) -> Self {
        for feature in features {
            match others.0.get(feature) {
                Some(options) => self.0.insert(feature, options.clone()),
                None => self.0.remove(feature),
            };
        }
        self
    }

    /// Whether a feature was given any.
    pub fn has(&self, feature: &str) -> bool {
        self.0.contains_key(feature)
    }

    /// The options of a feature; `None` if it was given none.
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

impl PartialEq for FeatureOptions {
    fn eq(&self, other: &Self) -> bool {
        self.changed(other).is_empty()
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

    #[test]
    fn options_of_some_features_are_taken_from_others() {
        let given = FeatureOptions::default()
            .with("a", 1)
            .with("b", 1)
            .with("c", 1);
        let others = FeatureOptions::default().with("a", 2).with("c", 2);
        let taken = given.taking(&["a", "b"], &others);
        assert_eq!(taken, FeatureOptions::default().with("a", 2).with("c", 1));
    }
}
