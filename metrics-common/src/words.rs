//! Names on the wire that readers compare: the method of a measurement, and the kind of a
//! component. An unknown name is kept, so that an older reader shows names of a newer daemon. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A name of another version.
            Other(String),
        }

        impl $name {
            /// The name on the wire and in texts.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => $name::$variant,)*
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match $name::from(word.as_str()) {
                    $name::Other(_) => $name::Other(word),
                    known => known,
                }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> String {
                match word {
                    $name::Other(word) => word,
                    known => known.as_str().to_owned(),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// The method of a measurement.
    Method {
        /// BPF programs on tracepoints, by BTF.
        TpBtf = "tp_btf",
        /// BPF programs at the beginning and end of kernel functions, by trampolines.
        Fentry = "fentry",
        /// BPF programs at packets for the sockets of a control group.
        CgroupSkb = "cgroup_skb",
        /// The same as by fentry, by kprobes and kretprobes.
        Kprobe = "kprobe",
        /// Sampled stacks.
        Sampling = "sampling",
        /// The sum of its parts.
        Sum = "sum",
        /// The whole minus its other parts.
        Remainder = "remainder",
        /// The energy counters of the processor.
        Rapl = "rapl",
    }
}

words! {
    /// The kind of a component; see [`crate::Kind`], which includes the rules.
    KindName {
        /// [`crate::Kind::Sum`].
        Sum = "sum",
        /// [`crate::Kind::Timed`].
        Timed = "timed",
        /// [`crate::Kind::Estimated`].
        Estimated = "estimated",
        /// [`crate::Kind::Carved`].
        Carved = "carved",
        /// [`crate::Kind::Sampled`].
        Sampled = "sampled",
        /// [`crate::Kind::Remainder`].
        Remainder = "remainder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn a_word_that_nobody_knows_yet_comes_through_unchanged() {
        for word in ["sampling", "tp_btf", "quantum", ""] {
            let bytes = codec::encode(&word.to_owned()).unwrap();
            let method: Method = codec::decode(&bytes).unwrap();
            assert_eq!(method.as_str(), word);
            assert_eq!(codec::encode(&method).unwrap(), bytes);
        }
        assert_eq!(Method::from("sampling"), Method::Sampling);
        assert_eq!(
            KindName::from("sampling"),
            KindName::Other("sampling".to_owned())
        );
    }

    #[test]
    fn every_kind_of_the_table_has_a_name() {
        for component in crate::COMPONENTS {
            let name = component.kind.name();
            assert!(!matches!(name, KindName::Other(_)), "{name}");
        }
    }
}
