//! What a chat is rendered with when the model file brings no template.
//!
//! The vocabulary tells: a publisher adds tokens like `<|im_start|>` for one way of writing chats,
//! so a file that has them (as tokens, not as ordinary text) is written to in that way. A
//! vocabulary without any known marker gets a transcript of `User:` and `Assistant:` lines. The
//! forms are those that the publishers describe in their model cards; each ends a turn with the
//! token at which generation stops.

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use crate::tokenizer::kinds::Kinds;

/// One form of writing chats.
#[derive(Debug)]
pub(super) struct Form {
    /// What people call it.
    pub(super) name: &'static str,
    /// Tokens that a vocabulary must have for it.
    markers: &'static [&'static str],
    /// The template.
    pub(super) source: &'static str,
    /// Strings at which a reply ends besides end-of-turn tokens.
    pub(super) stops: &'static [&'static str],
}

/// The forms, most telling markers first.
const FORMS: &[Form] = &[
    Form {
        name: "ChatML",
        markers: &["<|im_start|>", "<|im_end|>"],
        source: "{% for message in messages %}<|im_start|>{{ message.role }}\n\
                 {{ message.content }}<|im_end|>\n{{ '' }}{% endfor %}\
                 {% if add_generation_prompt %}<|im_start|>assistant\n{{ '' }}{% endif %}",
        stops: &[],
    },
    Form {
        name: "Llama 3",
        markers: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        source: "{{ bos_token }}{% for message in messages %}\
                 <|start_header_id|>{{ message.role }}<|end_header_id|>\n\n\
                 {{ message.content | trim }}<|eot_id|>{% endfor %}\
                 {% if add_generation_prompt %}\
                 <|start_header_id|>assistant<|end_header_id|>\n\n{{ '' }}{% endif %}",
        stops: &[],
    },
    Form {
        name: "Gemma",
        markers: &["<start_of_turn>", "<end_of_turn>"],
        // Gemma has no system role; a refusal makes the caller put the text before the user's.
        source: "{{ bos_token }}{% for message in messages %}\
                 {% if message.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}\
                 <start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}\n\
                 {{ message.content | trim }}<end_of_turn>\n{{ '' }}{% endfor %}\
                 {% if add_generation_prompt %}<start_of_turn>model\n{{ '' }}{% endif %}",
        stops: &[],
    },
    Form {
        name: "Phi-3",
        markers: &["<|user|>", "<|assistant|>", "<|end|>"],
        source: "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n\
                 {{ message.content }}<|end|>\n{{ '' }}{% endfor %}\
                 {% if add_generation_prompt %}<|assistant|>\n{{ '' }}{% endif %}",
        stops: &[],
    },
    Form {
        name: "Mistral",
        markers: &["[INST]", "[/INST]"],
        source: "{{ bos_token }}{% for message in messages %}\
                 {% if message.role == 'system' %}{{ raise_exception('no system role') }}\
                 {% elif message.role == 'assistant' %}{{ message.content }}{{ eos_token }}\
                 {% else %}[INST]{{ message.content }}[/INST]{% endif %}{% endfor %}",
        stops: &[],
    },
];

/// Such a model was probably not trained on chats and may write the user's next line itself, so a
/// reply ends there.
const TRANSCRIPT: Form = Form {
    name: "a transcript",
    markers: &[],
    source: "{{ bos_token }}{% for message in messages %}\
             {% if message.role == 'system' %}{{ message.content }}\n\n\
             {% elif message.role == 'assistant' %}Assistant: {{ message.content }}\n\
             {% else %}User: {{ message.content }}\n{% endif %}{% endfor %}\
             {% if add_generation_prompt %}Assistant:{% endif %}",
    stops: &["\nUser:"],
};

/// The form for a vocabulary.
pub(super) fn form(vocabulary: &Vocabulary) -> &'static Form {
    let kinds = Kinds::of(vocabulary);
    let has = |marker: &&str| {
        (0..).zip(&vocabulary.tokens).any(|(id, text)| {
            let added = matches!(kinds.get(id), TokenKind::Control | TokenKind::UserDefined);
            added && text == marker
        })
    };
    let fits = |form: &&Form| form.markers.iter().all(has);
    FORMS.iter().find(fits).unwrap_or(&TRANSCRIPT)
}
