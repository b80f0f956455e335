//! Where names of Kubernetes pods are read: the kubelet's folder of logs, which has one for each
//! pod of the host.

use std::fs;
use std::path::PathBuf;

use super::slice::Slice;
use crate::analysis::pods::{Pod, of_log_folder};
use crate::analysis::recent::Recent;
use netto_sys::system::Roots;

/// Below the folder that `/proc` is in: `/host/proc` is of the host that is seen at `/host`.
const LOGS: &str = "var/log/pods";
/// The folder is read at most so often, nanoseconds.
const PAUSE_NS: u64 = 10_000_000_000;
/// So many pods are known at most. A kubelet runs some hundreds.
const MOST_PODS: usize = 4096;
/// So many names are looked at in one reading.
const MOST_FOLDERS: usize = 65_536;

/// Pods of this host by their identity.
#[derive(Debug)]
pub struct Pods {
    folder: PathBuf,
    known: Recent<u128, Pod>,
    /// Whether one was asked for that is not known.
    is_wanted: bool,
    /// When the folder may be read again, on the clock that never goes back.
    from_ns: u64,
}

impl Pods {
    /// Nothing is read until a pod is asked for.
    pub fn new(roots: &Roots) -> Self {
        let root = roots.proc_root.parent().unwrap_or(&roots.proc_root);
        Pods {
            folder: root.join(LOGS),
            known: Recent::new(MOST_PODS, |_| 1),
            is_wanted: false,
            from_ns: 0,
        }
    }

    /// Name of the pod with this identity. One that is not known is looked for at the next
    /// [`refresh`](Self::refresh).
    pub fn pod(&mut self, uid: &str) -> Option<&Pod> {
        let pod = number_of(uid).and_then(|uid| self.known.get(uid));
        self.is_wanted |= pod.is_none();
        pod.map(|pod| &*pod)
    }

    /// Reads the folder if somebody asked for a pod that is not known, and it was not read just
    /// now.
    pub fn refresh(&mut self, now_ns: u64, slice: &mut Slice) {
        if !self.is_wanted || now_ns < self.from_ns || !slice.goes_on() {
            return;
        }
        self.is_wanted = false;
        self.from_ns = now_ns.saturating_add(PAUSE_NS);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST_FOLDERS) {
            let name = entry.file_name();
            if let Some((uid, pod)) = name.to_str().and_then(of_log_folder)
                && let Some(uid) = number_of(&uid)
                && self.known.peek(uid) != Some(&pod)
            {
                self.known.insert(uid, pod);
            }
            if !slice.goes_on() {
                break;
            }
        }
    }
}

/// The 32 digits of an identity as a number.
fn number_of(uid: &str) -> Option<u128> {
    u128::from_str_radix(&uid.replace('-', ""), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netto_sys::system::testing::tree;

    const FIRST: &str = "11111111-2222-3333-4444-555555555555";
    const SECOND: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_pod_is_named_from_its_folder_and_its_name_outlives_the_folder() {
        let first = format!("var/log/pods/shop_web-1_{FIRST}/app/0.log");
        let (dir, roots) = tree(&[(&first, "")]);
        let mut pods = Pods::new(&roots);
        assert_eq!(pods.pod(FIRST), None);
        pods.refresh(1, &mut Slice::endless());
        let named = |pod: Option<&Pod>| pod.map(|pod| format!("{}/{}", pod.namespace, pod.name));
        assert_eq!(named(pods.pod(FIRST)).unwrap(), "shop/web-1");
        let folder = dir.path().join("var/log/pods");
        fs::remove_dir_all(folder.join(format!("shop_web-1_{FIRST}"))).unwrap();
        fs::create_dir_all(folder.join(format!("kube-system_etcd_{SECOND}"))).unwrap();
        assert_eq!(pods.pod(SECOND), None);
        pods.refresh(PAUSE_NS, &mut Slice::endless());
        assert_eq!(pods.pod(SECOND), None, "too soon to read it again");
        pods.refresh(PAUSE_NS + 1, &mut Slice::endless());
        assert_eq!(named(pods.pod(SECOND)).unwrap(), "kube-system/etcd");
        assert_eq!(named(pods.pod(FIRST)).unwrap(), "shop/web-1");
    }

    #[test]
    fn a_host_without_kubernetes_has_no_pods() {
        let (_dir, roots) = tree(&[]);
        let mut pods = Pods::new(&roots);
        pods.refresh(1, &mut Slice::endless());
        for odd in [FIRST, "", "no identity", "🦀"] {
            assert_eq!(pods.pod(odd), None);
        }
        pods.refresh(1, &mut Slice::endless());
        assert_eq!(pods.pod(FIRST), None);
    }
}
