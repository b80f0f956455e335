//! Names of Kubernetes pods, from the kubelet's folder of logs, which has one folder for each pod
//! of the host.

use std::fs;
use std::path::PathBuf;

use super::pace::Pace;
use crate::analysis::pods::{Pod, number_of, of_log_folder};
use netto_sys::system::Roots;

/// Below the folder that `/proc` is in: `/host/proc` is of the host that is seen at `/host`.
const LOGS: &str = "var/log/pods";
/// Most names read at a time.
const MOST_FOLDERS: usize = 65_536;

/// The source of this host's pods.
#[derive(Debug)]
pub struct Pods {
    folder: PathBuf,
}

impl Pods {
    /// Nothing read yet.
    pub fn new(roots: &Roots) -> Self {
        let root = roots.proc_root.parent().unwrap_or(&roots.proc_root);
        Pods {
            folder: root.join(LOGS),
        }
    }

    /// Passes all current pods to `found`, by identity.
    pub(super) fn read(&self, pace: &mut Pace, mut found: impl FnMut(u128, Pod)) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST_FOLDERS) {
            let name = entry.file_name();
            if let Some((uid, pod)) = name.to_str().and_then(of_log_folder)
                && let Some(uid) = number_of(&uid)
            {
                found(uid, pod);
            }
            pace.step();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netto_sys::system::testing::tree;

    fn pods(roots: &Roots) -> Vec<(u128, String, String)> {
        let mut all = Vec::new();
        Pods::new(roots).read(&mut Pace::new(), |uid, pod| {
            all.push((uid, pod.namespace, pod.name));
        });
        all
    }

    #[test]
    fn a_pod_is_named_from_its_folder() {
        let uid = "11111111-2222-3333-4444-555555555555";
        let first = format!("var/log/pods/shop_web-1_{uid}/app/0.log");
        let (_dir, roots) = tree(&[(&first, ""), ("var/log/pods/other/file", "")]);
        let expected = (
            number_of(uid).unwrap(),
            "shop".to_owned(),
            "web-1".to_owned(),
        );
        assert_eq!(pods(&roots), [expected]);
    }

    #[test]
    fn a_host_without_kubernetes_has_no_pods() {
        let (_dir, roots) = tree(&[]);
        assert_eq!(pods(&roots), []);
    }
}
