//! Every setting has a test that changes it and sees the product do something else.
//!
//! A key that is parsed, checked and saved, and then looked at by nobody, is a promise that nobody
//! keeps. The table names for each key the test of its behaviour: file and function. It fails for a
//! key without an entry, for an entry without a key, and for a test that is not there or never
//! names the key. What the test checks is for its reader to judge.

use std::collections::BTreeMap;
use std::path::Path;

use nook_store::SETTINGS;

const WHOLE_NODE: &str = "tests/tests/it/settings.rs";
const PORT: &str = "crates/nook-openai/tests/it/settings.rs";
const PAUSING: &str = "tests/tests/it/pausing.rs";
const CHOICE: &str = "crates/nook-requester/src/choice/tests.rs";
const WINDOW: &str = "crates/nook-node/src/settings.rs";

/// Key, file, test.
const BEHAVIOUR: &[(&str, &str, &str)] = &[
    ("device.name", WHOLE_NODE, "f17_a_new_name_is_heard_by_the_other_devices"),
    (
        "device.kind",
        "tests/tests/it/facts.rs",
        "a_trusted_device_shows_what_it_is_and_a_guest_only_its_kind",
    ),
    ("device.keyring", WHOLE_NODE, "the_keychain_is_asked_only_where_it_may_be"),
    ("port.enabled", PORT, "a_port_that_is_switched_off_is_not_open"),
    ("port.address", PORT, "the_port_is_where_it_is_set_to_be"),
    ("port.expose_to_lan", PORT, "other_machines_reach_the_port_only_where_it_is_exposed"),
    ("port.allowed_origins", PORT, "web_pages_use_the_port_only_from_origins_that_are_set"),
    ("port.allowed_hosts", PORT, "programs_call_the_port_only_by_names_that_are_known_or_set"),
    ("gate.lend", WHOLE_NODE, "whom_layers_are_lent_to_is_decided_by_least_trust"),
    ("gate.borrow", WHOLE_NODE, "who_may_compute_on_prompts_is_decided_by_least_trust"),
    (
        "gate.copy",
        "tests/tests/it/copying.rs",
        "the_gate_and_the_owners_switch_decide_who_is_given_models",
    ),
    (
        "network.listen_port",
        WHOLE_NODE,
        "a_node_listens_at_the_port_that_is_set_and_at_any_free_one_otherwise",
    ),
    (
        "network.loopback",
        WHOLE_NODE,
        "loopback_addresses_count_only_where_the_household_is_on_one_machine",
    ),
    (
        "network.give_models",
        "tests/tests/it/copying.rs",
        "the_gate_and_the_owners_switch_decide_who_is_given_models",
    ),
    (
        "network.let_others_wake",
        "tests/tests/it/waking.rs",
        "a_sleeping_helper_that_allows_it_is_called_and_waited_for",
    ),
    (
        "network.wake_helpers",
        "tests/tests/it/ends.rs",
        "a_reply_wakes_the_computer_without_which_it_cannot_be_made",
    ),
    ("models.folder", "tests/tests/it/moving.rs", "a_folder_that_was_named_by_hand_can_be_chosen"),
    (
        "chat.temperature",
        "tests/tests/it/conversations.rs",
        "how_freely_words_are_chosen_is_the_owners_choice",
    ),
    (
        "chat.thinking",
        "tests/tests/it/conversations.rs",
        "whether_a_model_thinks_first_is_the_owners_choice",
    ),
    (
        "chat.titles",
        "tests/tests/it/conversations.rs",
        "a_chat_is_named_by_its_model_unless_its_owner_has_named_it_or_does_not_want_that",
    ),
    (
        "window.language",
        WINDOW,
        "what_a_window_needs_before_there_is_a_node_is_what_was_set_without_one",
    ),
    (
        "window.notifications",
        "src-tauri/src/notices.rs",
        "nothing_is_told_while_the_owner_wants_no_notices_nor_later",
    ),
    (
        "window.ask_keys",
        "tests/python/test_pages.py",
        "test_keys_bring_the_window_up_with_a_new_chat_from_any_program",
    ),
    (
        "updates.new_versions",
        "tests/tests/it/updating.rs",
        "new_versions_are_looked_for_as_the_owner_chooses",
    ),
    (
        "window.safe_graphics",
        WINDOW,
        "what_a_window_needs_before_there_is_a_node_is_what_was_set_without_one",
    ),
    (
        "distributed_inference.enabled",
        WHOLE_NODE,
        "a_computer_that_does_not_work_with_others_neither_shares_nor_asks",
    ),
    (
        "distributed_inference.backend",
        "tests/tests/it/gpu.rs",
        "the_setting_says_what_computes_and_what_cannot_is_told_with_a_way_out",
    ),
    (
        "distributed_inference.pooling",
        "tests/tests/it/pooling.rs",
        "always_means_that_helpers_are_used_whatever_it_costs",
    ),
    (
        "distributed_inference.split",
        CHOICE,
        "the_owner_chooses_how_layers_are_divided_among_a_fast_and_a_slow_device",
    ),
    (
        "distributed_inference.whole_on_own_devices",
        "tests/tests/it/offload.rs",
        "only_the_owner_of_the_asking_device_lets_words_out",
    ),
    (
        "distributed_inference.whole_models",
        WHOLE_NODE,
        "whole_requests_leave_only_for_the_models_that_are_named",
    ),
    (
        "distributed_inference.max_shards_per_request",
        WHOLE_NODE,
        "a_route_has_no_more_computers_than_the_owner_allows",
    ),
    (
        "distributed_inference.shard_health_timeout_seconds",
        WHOLE_NODE,
        "offers_of_a_silent_device_are_forgotten_after_four_silences",
    ),
    (
        "distributed_inference.fallback_to_local",
        "tests/tests/it/faults.rs",
        "f6_the_only_holder_dies_and_nobody_may_stand_in",
    ),
    (
        "distributed_inference.fallback_to_local_after_failures",
        WHOLE_NODE,
        "after_as_many_failures_as_allowed_this_computer_is_preferred",
    ),
    (
        "distributed_inference.spot_checks_per_thousand",
        "tests/tests/it/garbage.rs",
        "t9_other_layers_look_right_and_only_a_second_computation_finds_them",
    ),
    (
        "distributed_inference.check_first_words",
        "tests/tests/it/garbage.rs",
        "t9_no_word_of_a_helper_that_is_contradicted_is_shown_where_the_first_ones_wait",
    ),
    (
        "distributed_inference.activation_dtype",
        "tests/tests/it/formats.rs",
        "the_setting_counts_where_a_wish_names_no_format",
    ),
    (
        "distributed_inference.allow_self_as_shard",
        CHOICE,
        "this_device_computes_between_two_others_only_where_its_owner_lets_it",
    ),
    (
        "distributed_inference.max_concurrent_pipelines",
        "tests/tests/it/conversations.rs",
        "a_turn_that_waits_has_its_handle_at_once_and_can_be_stopped",
    ),
    (
        "distributed_inference.local_prefix_layers",
        "tests/tests/it/parity.rs",
        "a_model_with_known_answers_is_reproduced_at_every_cut",
    ),
    (
        "distributed_inference.local_suffix_layers",
        "tests/tests/it/parity.rs",
        "a_model_with_known_answers_is_reproduced_at_every_cut",
    ),
    (
        "distributed_inference.host.serve_shards",
        "tests/tests/it/refusals.rs",
        "the_gate_and_the_offer_decide_what_a_paired_device_gets",
    ),
    (
        "distributed_inference.host.shard_eviction_idle_seconds",
        "tests/tests/it/lending_cap.rs",
        "what_one_model_has_lent_is_not_there_for_another",
    ),
    (
        "distributed_inference.host.max_lent_memory_mb",
        "tests/tests/it/lending_cap.rs",
        "what_one_model_has_lent_is_not_there_for_another",
    ),
    (
        "distributed_inference.host.max_lent_gpu_memory_mb",
        "crates/nook-host/src/machine/tests/cards.rs",
        "no_more_graphics_memory_is_advertised_than_its_cap_leaves",
    ),
    (
        "distributed_inference.host.fetch_layers",
        "tests/tests/it/home.rs",
        "an_owner_who_wants_nothing_fetched_is_asked_for_nothing_and_it_is_said",
    ),
    (
        "distributed_inference.host.max_fetched_layers_mb",
        "tests/tests/it/home.rs",
        "what_is_fetched_stays_below_the_owners_cap_and_it_is_said",
    ),
    (
        "distributed_inference.host.max_concurrent_streams",
        "tests/tests/it/refusals.rs",
        "t10_exactly_as_many_streams_run_as_the_owner_allows",
    ),
    ("distributed_inference.host.layers", WHOLE_NODE, "only_the_layers_that_are_named_are_offered"),
    (
        "distributed_inference.host.pause.on_battery",
        "crates/nook-host/src/pause/policy.rs",
        "each_reason_of_the_machine_can_be_switched_off_by_its_setting",
    ),
    (
        "distributed_inference.host.pause.in_full_screen",
        "crates/nook-host/src/pause/policy.rs",
        "each_reason_of_the_machine_can_be_switched_off_by_its_setting",
    ),
    (
        "distributed_inference.host.pause.when_busy_percent",
        PAUSING,
        "a_machine_that_others_keep_busy_pauses_and_says_why_until_the_owner_does_not_mind",
    ),
    (
        "distributed_inference.host.pause.quiet_hours",
        PAUSING,
        "quiet_hours_hold_back_and_give_memory_back_until_they_are_over",
    ),
    (
        "distributed_inference.host.pause.until",
        WHOLE_NODE,
        "sharing_pauses_until_the_moment_that_is_set",
    ),
];

/// Whether `text` has a test called `name`, in Rust or in Python.
fn has_test(text: &str, name: &str) -> bool {
    if text.contains(&format!("\ndef {name}(")) {
        return true;
    }
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let above = text[..at].lines().rev().skip_while(|line| !line.trim_start().starts_with("#["));
    above.take(1).any(|line| line.contains("#[test]") || line.contains("#[tokio::test"))
}

#[test]
fn every_setting_has_a_test_of_what_it_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (key, file, test) in BEHAVIOUR {
        assert!(tests.insert(key, (file, test)).is_none(), "{key} stands twice in the table");
    }
    for setting in SETTINGS {
        let key = setting.key;
        let (file, test) =
            tests.remove(key).unwrap_or_else(|| panic!("no test of what {key} does"));
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("no {file}"));
        assert!(has_test(&text, test), "{file} has no test {test}");
        assert!(text.contains(setting.leaf()), "{file} never names {key}");
    }
    assert!(tests.is_empty(), "no setting any more: {:?}", tests.keys());
}
