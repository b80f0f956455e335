//! Names of Kubernetes pods, from the names of the folders in which the kubelet keeps their logs:
//! `<namespace>_<pod>_<uid>` (`BuildPodLogsDirectory` in the kubelet). No API server is asked.

/// Longest namespace, a DNS label, bytes.
const LONGEST_NAMESPACE: usize = 63;
/// Longest name of a pod, a DNS name, bytes.
const LONGEST_POD: usize = 253;

/// A pod's name in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name in that namespace.
    pub name: String,
}

/// Identity and name of the pod whose logs are in the folder of this name. `None` if it is not
/// such a folder.
pub fn of_log_folder(folder: &str) -> Option<(String, Pod)> {
    // None of the three has a `_`.
    let mut parts = folder.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none()
        && is_name(namespace, LONGEST_NAMESPACE)
        && is_name(name, LONGEST_POD)
        && is_uid(uid);
    is_whole.then(|| {
        let pod = Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        (uid.to_owned(), pod)
    })
}

/// The 32 digits of an identity as a number.
pub fn number_of(uid: &str) -> Option<u128> {
    u128::from_str_radix(&uid.replace('-', ""), 16).ok()
}

/// Whether it can be a pod's identity: a UUID, or the hash of the manifest of a static pod.
pub fn is_uid(uid: &str) -> bool {
    let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    match uid.len() {
        32 => uid.bytes().all(is_digit),
        36 => uid.bytes().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == b'-',
            _ => is_digit(c),
        }),
        _ => false,
    }
}

fn is_name(name: &str, longest: usize) -> bool {
    let is_fine = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    !name.is_empty() && name.len() <= longest && name.bytes().all(is_fine)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_folder_of_logs_names_its_pod() {
        for uid in [
            "11111111-2222-3333-4444-555555555555",
            "0123456789abcdef0123456789abcdef",
        ] {
            let (found, pod) = of_log_folder(&format!("kube-system_coredns-5d78c_{uid}")).unwrap();
            assert_eq!(
                (found.as_str(), pod.namespace.as_str(), pod.name.as_str()),
                (uid, "kube-system", "coredns-5d78c")
            );
        }
    }

    #[test]
    fn other_folders_name_none() {
        let uid = "11111111-2222-3333-4444-555555555555";
        for folder in [
            "".to_owned(),
            "lost+found".to_owned(),
            format!("a_b_{uid}_c"),
            format!("a_{uid}"),
            format!("_b_{uid}"),
            format!("a\u{1b}_b_{uid}"),
            format!("{}_b_{uid}", "a".repeat(64)),
            "a_b_1111111102222-3333-4444-555555555555".to_owned(),
            "a_b_c".to_owned(),
        ] {
            assert_eq!(of_log_folder(&folder), None, "{folder:?}");
        }
    }

    #[test]
    fn an_identity_is_a_number_and_other_texts_are_none() {
        assert_eq!(
            number_of("11111111-2222-3333-4444-555555555555"),
            number_of("11111111222233334444555555555555")
        );
        assert_eq!(
            number_of("0123456789abcdef0123456789abcdef"),
            Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
        );
        for odd in ["", "no identity", "🦀"] {
            assert_eq!(number_of(odd), None);
        }
    }

    proptest! {
        #[test]
        fn no_name_of_a_folder_makes_it_panic(folder in "[a-c]{0,3}_[a-c]{0,3}_[0-9a-f-]{30,38}|.{0,60}") {
            if let Some((uid, pod)) = of_log_folder(&folder) {
                prop_assert_eq!(folder, format!("{}_{}_{uid}", pod.namespace, pod.name));
            }
        }
    }
}
