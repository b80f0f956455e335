//! Questions to a made-up host, and its answers.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::mpsc::sync_channel;

use super::super::cgroups::testing::hierarchy;
use super::super::processes::tests::put;
use super::*;
use crate::analysis::pods::number_of;
use crate::analysis::recent::BELIEVED_NS;

const LATER_NS: u64 = 2 * PAUSE_NS;

/// A host with these files in its control groups; this process' network namespace is 1.
fn host(groups: &[(&str, &str)]) -> (tempfile::TempDir, Roots, Search) {
    let (dir, roots) = hierarchy(groups);
    fs::create_dir_all(roots.proc_root.join("self/ns")).unwrap();
    symlink("net:[1]", roots.proc_root.join("self/ns/net")).unwrap();
    let search = Search::new(&roots, Some(Cgroups::new(&roots).unwrap()));
    (dir, roots, search)
}

fn answers(search: &mut Search, asked: &[Subject], now_ns: u64) -> Vec<Answer> {
    let mut all = Vec::new();
    for asked in asked {
        let question = Question {
            asked: *asked,
            group: None,
        };
        search.take(question, &mut |answer| all.push(answer));
    }
    search.answer(now_ns, &mut |answer| all.push(answer));
    all
}

fn holder(answers: &[Answer]) -> Vec<(u64, Option<u32>)> {
    let holders = answers.iter().filter_map(|answer| match answer {
        Answer::Holder {
            socket, process, ..
        } => Some((*socket, process.as_ref().map(|process| process.pid))),
        _ => None,
    });
    holders.collect()
}

/// Name and group.
fn interface(answers: &[Answer]) -> Vec<(String, String)> {
    let interfaces = answers.iter().filter_map(|answer| match answer {
        Answer::Interface { name, group, .. } => {
            let group = group.clone().unwrap_or_default();
            Some((name.clone(), String::from_utf8(group).unwrap()))
        }
        _ => None,
    });
    interfaces.collect()
}

#[test]
fn a_group_made_later_is_found_by_a_later_walk_and_what_nobody_finds_is_none() {
    let (dir, _roots, mut search) = host(&[]);
    search.walk(1, &mut |_| {});
    let folder = dir.path().join("sys/fs/cgroup/late");
    fs::create_dir(&folder).unwrap();
    let id = fs::metadata(folder).unwrap().ino();
    let asked = [Subject::Group(id), Subject::Group(u64::MAX)];
    assert_eq!(
        answers(&mut search, &asked, 2),
        [],
        "too soon for another walk"
    );
    assert_eq!(search.next_ns(), Some(1 + GROUPS_PAUSE_NS));
    let found = answers(&mut search, &[], 1 + GROUPS_PAUSE_NS);
    assert!(found.contains(&Answer::Group(id, Some((*b"/late").into()))));
    assert!(found.contains(&Answer::Group(u64::MAX, None)));
    assert_eq!(search.next_ns(), None);
}

#[test]
fn pods_are_read_when_one_is_asked_for_and_not_too_often() {
    let uid = |number: u8| format!("11111111-2222-3333-4444-5555555555{number:02}");
    let pod_number = |number| number_of(&uid(number)).unwrap();
    let (dir, _roots, mut search) = host(&[]);
    let folder = dir.path().join("var/log/pods");
    fs::create_dir_all(folder.join(format!("shop_web-1_{}", uid(1)))).unwrap();
    let pods = |answers: Vec<Answer>| {
        let pods = answers.into_iter().filter_map(|answer| match answer {
            Answer::Pod(uid, pod) => Some((uid, pod.map(|pod| pod.name))),
            _ => None,
        });
        pods.collect::<Vec<_>>()
    };
    let found = pods(answers(&mut search, &[Subject::Pod(pod_number(1))], 1));
    assert_eq!(found, [(pod_number(1), Some("web-1".to_owned()))]);
    fs::create_dir_all(folder.join(format!("shop_web-2_{}", uid(2)))).unwrap();
    let asked = [Subject::Pod(pod_number(2)), Subject::Pod(pod_number(3))];
    assert_eq!(pods(answers(&mut search, &asked, PAUSE_NS)), []);
    let found = pods(answers(&mut search, &[], PAUSE_NS + 1));
    assert_eq!(
        found,
        [
            (pod_number(2), Some("web-2".to_owned())),
            (pod_number(3), None)
        ]
    );
}

#[test]
fn a_known_group_is_looked_into_instead_of_all_processes() {
    let (_dir, roots, mut search) = host(&[("/web/cgroup.procs", "30\n")]);
    put(&roots, 30, "/web", 1, &[700]);
    put(&roots, 31, "/other", 1, &[701]);
    let mut ask = |socket: u64, group: Option<&[u8]>, now_ns| {
        let question = Question {
            asked: Subject::Holder(socket),
            group: group.map(Into::into),
        };
        search.take(question, &mut |_| panic!("nothing is known at once"));
        (
            holder(&answers(&mut search, &[], now_ns)),
            search.processes_from_ns,
        )
    };
    assert_eq!(ask(700, Some(b"/web"), 1), (vec![(700, Some(30))], 0));
    // A process that is not in the expected group is searched everywhere.
    let (found, next_ns) = ask(701, Some(b"/web"), 2);
    assert_eq!(found, [(701, Some(31))]);
    assert!(next_ns > PAUSE_NS);
}

#[test]
fn what_nobody_holds_is_told_and_searched_for_at_most_now_and_then() {
    let (_dir, roots, mut search) = host(&[]);
    let first = answers(&mut search, &[Subject::Holder(700)], 1);
    assert_eq!(holder(&first), [(700, None)]);
    put(&roots, 30, "/", 1, &[700]);
    for now_ns in 2..50 {
        assert_eq!(
            holder(&answers(&mut search, &[Subject::Holder(700)], now_ns)),
            []
        );
    }
    assert_eq!(search.processes.searches(), 1);
    let later = answers(&mut search, &[], LATER_NS);
    assert_eq!(holder(&later), [(700, Some(30))]);
}

#[test]
fn who_held_a_socket_is_looked_at_again_before_all_are() {
    let (_dir, roots, mut search) = host(&[]);
    put(&roots, 30, "/", 1, &[700]);
    answers(&mut search, &[Subject::Holder(700)], 1);
    let searched_ns = search.processes_from_ns;
    let later = 1 + BELIEVED_NS.max(LATER_NS);
    let again = answers(&mut search, &[Subject::Holder(700)], later);
    assert_eq!(holder(&again), [(700, Some(30))]);
    assert_eq!(search.processes_from_ns, searched_ns);
}

#[test]
fn an_interface_has_its_name_at_once_and_the_container_behind_it_later() {
    let (_dir, roots, mut search) = host(&[]);
    put(&roots, 30, "/web-1", 2, &[]);
    let asked = |netns| {
        Subject::Interface(Interface {
            netns,
            from: 1,
            to: 0,
        })
    };
    // Not known at first, then searched for.
    let names = interface(&answers(&mut search, &[asked(2)], 1));
    let named = |group: &str| ("received by interface 1".to_owned(), group.to_owned());
    assert_eq!(names, [named(""), named("/web-1")]);
    // Loopback of this namespace has a name and no owner behind it: that is final.
    let names = interface(&answers(&mut search, &[asked(1)], 2));
    assert_eq!(names, [("received by lo".to_owned(), String::new())]);
    assert_eq!(search.next_ns(), None);
    // For a namespace without processes, the answer is repeated after the next search.
    assert_eq!(
        interface(&answers(&mut search, &[asked(9)], 3)),
        [named("")]
    );
    assert_eq!(interface(&answers(&mut search, &[], 4)), []);
    assert_eq!(interface(&answers(&mut search, &[], LATER_NS)), [named("")]);
    assert_eq!(search.next_ns(), None);
}

#[test]
fn the_thread_tells_all_groups_first_and_ends_when_nobody_asks_any_more() {
    let (_dir, roots, search) = host(&[("/a/cgroup.procs", "")]);
    put(&roots, 30, "/a", 1, &[700]);
    let (ask, questions) = sync_channel(MOST_ASKED);
    let (answer, answers) = sync_channel(MOST_ASKED);
    let thread = std::thread::spawn(move || search.run(&questions, &answer));
    let group: Option<Box<[u8]>> = Some((*b"/a").into());
    let asked = Subject::Holder(700);
    ask.send(Question { asked, group }).unwrap();
    let found: Vec<Answer> = answers.iter().take(3).collect();
    assert!(matches!(&found[0], Answer::Group(_, Some(path)) if **path == *b"/"));
    assert!(matches!(&found[1], Answer::Group(_, Some(path)) if **path == *b"/a"));
    assert_eq!(holder(&found[2..]), [(700, Some(30))]);
    drop(ask);
    thread.join().unwrap();
}
