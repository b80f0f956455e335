//! Changes of a host's facts update the description.

use metrics_common::component::index_of;

use super::*;

fn knowledge(has_symbols: Vec<bool>) -> Knowledge {
    let facts = Facts {
        programs: Ok(()),
        fentry: Err("not here".to_owned()),
        kprobe: Err("has no kprobes".to_owned()),
        socket_functions: Vec::new(),
        stacks: Ok(()),
        symbols: Ok(()),
        has_symbols,
        is_realtime: false,
        tracepoints: Ok(()),
    };
    let plan = Plan::new(&facts, RequestedMethod::Auto).unwrap();
    Knowledge {
        info: Info {
            components: ComponentInfo::table(|row| plan.components[row].clone()),
            ..metrics_common::fixture::info()
        },
        facts,
    }
}

#[test]
fn a_module_that_comes_makes_its_component_available_and_one_that_goes_takes_it() {
    let bridge = index_of("bridging").unwrap();
    let with = vec![true; metrics_common::COMPONENTS.len()];
    let mut without = with.clone();
    without[bridge] = false;
    let mut knowledge = knowledge(without.clone());
    let is_shown = |k: &Knowledge| k.info.components[bridge].availability.is_available();
    assert!(!is_shown(&knowledge));
    assert!(
        knowledge
            .learn(without.clone(), RequestedMethod::Auto, GroupSet::ALL)
            .is_none()
    );

    let plan = knowledge
        .learn(with.clone(), RequestedMethod::Auto, GroupSet::ALL)
        .expect("news");
    assert!(is_shown(&knowledge));
    assert!(plan.capabilities().available[bridge]);
    assert!(
        knowledge
            .learn(with, RequestedMethod::Auto, GroupSet::ALL)
            .is_none(),
        "told once"
    );

    let plan = knowledge
        .learn(without, RequestedMethod::Auto, GroupSet::ALL)
        .expect("news");
    assert!(!is_shown(&knowledge));
    assert!(!plan.capabilities().available[bridge]);
}
