//! How files of DeepSeek-V2 and its kin say how experts are chosen, or do not say it.

use nook_model::synthetic::Family;

use super::{APART, apart, assert_same, number, tiny};

/// Older files of DeepSeek-V2 do not say it, and neither do some of GLM-4.7-Flash.
#[test]
fn without_a_word_experts_with_a_bias_are_chosen_by_sigmoids_and_others_by_a_softmax() {
    for family in [Family::Deepseek2, Family::Deepseek2Whole, Family::Deepseek3] {
        let said = tiny(family);
        assert_same(&said.clone().without("expert_gating_func"), &said, &format!("{family:?}"));
        let none = said.clone().with("expert_gating_func", number(0));
        assert_same(&none, &said, &format!("{family:?}, 0"));
    }
    // What the file says is done, whatever tensors it has.
    let sigmoids = tiny(Family::Deepseek3);
    let softmax = sigmoids.clone().with("expert_gating_func", number(1));
    assert!(apart(&softmax, &sigmoids) > APART);
}
