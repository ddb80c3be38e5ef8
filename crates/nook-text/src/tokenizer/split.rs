//! How a byte-level vocabulary cuts text into words before merging.
//!
//! Owns the table from `tokenizer.ggml.pre` names to publishers' patterns. A [`Splitter`] applies
//! its patterns one after another, each to the pieces that the one before left, and what lies
//! between two matches is a piece too (`Split` with `Isolated` in the publishers' files). Names
//! and their grouping follow llama.cpp's `llama-vocab.cpp`; a name that is not in the table is an
//! error, because a wrong cut gives text that only looks right.

use fancy_regex::{Regex, RegexBuilder};

use super::EncodeError;

/// Most steps back that one match may take. (A run of more than about a million spaces is refused
/// before that, by the engine's limit on branches.)
const BACKTRACK_MAX: usize = 1 << 25;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Cased letters as the publisher lists them (spelt in code points: some look like others).
const DEEPSEEK_WORDS: &str = concat!(
    r"\s?[A-Za-z",
    r"\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}",
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}",
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}",
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}",
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}",
    r"\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}",
    r"\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}",
    r"\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}",
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}",
    r"\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}",
    r"\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}",
    r"\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}",
    r"\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}",
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}",
    "]+",
);
const DEEPSEEK_EAST: &str = r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const DEEPSEEK3_EAST: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const SEED: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
/// Llama 3's, with runs of white space cut at powers of two.
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";
/// Qwen 2's without English contractions: Turkish suffixes stay with their apostrophes.
const UFAKZEKA: &str =
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SPARK: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##;
const YOUTU_EAST: &str = r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Digits in groups of three from the right.
const AFMOE_DIGITS: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";
const AFMOE_EAST: &str = r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+";
const CHAMELEON: &[&str] = &[
    "<sentinel:[0-9]+>",
    "IMGIMG[A-I]{1,4}Z",
    r"[\t\n]|    |  ",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    GPT2,
];
const PORO: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// What a pre-tokenizer's name says beyond its patterns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe {
    patterns: &'static [&'static str],
    /// A word that is itself a token is not merged from its parts (`ignore_merges`).
    pub(super) whole_words: bool,
    /// Whether BOS goes first when the file does not say.
    pub(super) add_bos: bool,
    /// Spaces become `▁` and characters stay UTF-8, as in Gemma 4.
    pub(super) raw_utf8: bool,
}

const fn plain(patterns: &'static [&'static str]) -> Recipe {
    Recipe { patterns, whole_words: false, add_bos: false, raw_utf8: false }
}

/// The recipe of a `tokenizer.ggml.pre` name, or `None` for one that is not known.
pub(super) fn recipe(name: &str) -> Option<Recipe> {
    let whole_words = |patterns| Recipe { whole_words: true, ..plain(patterns) };
    Some(match name {
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" | "jina-v5-nano" => Recipe { add_bos: true, ..whole_words(&[LLAMA3]) },
        "glm4" | "glm5" => whole_words(&[LLAMA3]),
        "minicpm5" => whole_words(&[r"\p{N}{1,3}", LLAMA3]),
        "tekken" => Recipe { add_bos: true, ..whole_words(&[TEKKEN]) },
        "youtu" => whole_words(&[YOUTU_EAST, YOUTU]),
        "chameleon" => Recipe { add_bos: true, ..plain(CHAMELEON) },
        "gemma4" => Recipe { add_bos: true, raw_utf8: true, ..plain(&[r"[^\n]+|[\n]+"]) },
        other => plain(one_pattern(other).or_else(|| several_patterns(other))?),
    })
}

fn one_pattern(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "gpt-2" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "modern-bert" | "mpt" | "olmo"
        | "jais" | "trillion" | "granite-docling" | "exaone4" => &[GPT2],
        "dbrx" | "smaug-bpe" | "chatglm-bpe" => &[LLAMA3],
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "stablelm2" | "hunyuan" | "solar-open"
        | "grok-2" | "megrez" | "f2llmv2" => &[QWEN2],
        "qwen35" => &[QWEN35],
        "ufakzeka" => &[UFAKZEKA],
        "jais-2" => &[JAIS2],
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => &[GPT4O],
        "kimi-k2" => &[KIMI],
        "bailingmoe" | "bailingmoe2" | "llada-moe" => &[BAILING],
        "seed-coder" => &[SEED],
        "exaone-moe" => &[EXAONE_MOE],
        "poro-chat" | "bloom" | "gpt3-finnish" => &[PORO],
        _ => return None,
    })
}

fn several_patterns(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        // llama.cpp's meaning of "default": files converted before names existed.
        "default" => &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        "laguna" => &[r"[^\n]+|[\n]+", QWEN2],
        "deepseek-llm" => &[
            r"[\r\n]",
            DEEPSEEK_WORDS,
            r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
            r"\s+$",
            DEEPSEEK_EAST,
            r"\p{N}+",
        ],
        "deepseek-coder" => &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_EAST, r"\p{N}"],
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => {
            &[r"\p{N}{1,3}", DEEPSEEK3_EAST, DEEPSEEK3]
        }
        "spark2_5" => &[r"\p{N}{1,3}", DEEPSEEK3_EAST, SPARK, r"\p{N}"],
        "afmoe" => &[AFMOE_DIGITS, AFMOE_EAST, DEEPSEEK3],
        "falcon" => &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => &[r"\p{N}", GPT2],
        "tiny_aya" | "cohere2moe" => &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
        // The second pattern matches between digits only: before every three of them.
        "superbpe" => &[r"\p{N}+", r"(?=(?:\d{3})+(?!\d))"],
        "viking" => &[PORO, r"\p{N}"],
        _ => return None,
    })
}

/// Cuts text into the words of one vocabulary.
#[derive(Debug)]
pub(super) struct Splitter {
    patterns: Vec<Regex>,
}

impl Splitter {
    /// Compiles the patterns of a recipe.
    pub(super) fn new(recipe: &Recipe) -> Self {
        let compile = |pattern: &&str| {
            RegexBuilder::new(pattern)
                .backtrack_limit(BACKTRACK_MAX)
                .build()
                .expect("a test compiles every pattern of the table")
        };
        Self { patterns: recipe.patterns.iter().map(compile).collect() }
    }

    /// Calls `take` with each word of `text`, in order, until it fails; together they are the whole
    /// text.
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
        take: &mut impl FnMut(&'t str) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        cut(&self.patterns, text, take)
    }
}

fn cut<'t>(
    patterns: &[Regex],
    text: &'t str,
    take: &mut impl FnMut(&'t str) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let Some((first, rest)) = patterns.split_first() else {
        return if text.is_empty() { Ok(()) } else { take(text) };
    };
    let mut done = 0;
    for found in first.find_iter(text) {
        let found = found.map_err(|_| EncodeError::Split)?;
        if found.start() > done {
            cut(rest, &text[done..found.start()], take)?;
        }
        if found.end() > found.start() {
            cut(rest, found.as_str(), take)?;
        }
        done = found.end();
    }
    if done < text.len() { cut(rest, &text[done..], take) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pre: &str, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let splitter = Splitter::new(&recipe(pre).unwrap());
        let mut take = |word: &str| {
            words.push(word.to_owned());
            Ok(())
        };
        splitter.split(text, &mut take).unwrap();
        words
    }

    #[test]
    fn every_named_recipe_compiles_and_keeps_the_whole_text() {
        let text = "It's  12345 días,\r\n\n\t 日本語 🚀!  WE'LL  ";
        for name in [
            "default",
            "gpt-2",
            "llama-bpe",
            "glm4",
            "qwen2",
            "qwen35",
            "laguna",
            "minicpm5",
            "deepseek-llm",
            "deepseek-coder",
            "deepseek-v3",
            "falcon",
            "starcoder",
            "tekken",
            "gpt-4o",
            "tiny_aya",
            "kimi-k2",
            "bailingmoe",
            "seed-coder",
            "poro-chat",
            "viking",
            "gemma4",
            "jais-2",
            "glm5",
            "ufakzeka",
            "spark2_5",
            "youtu",
            "afmoe",
            "exaone-moe",
            "superbpe",
            "chameleon",
        ] {
            assert_eq!(words(name, text).concat(), text, "{name}");
            assert!(words(name, "").is_empty(), "{name}");
        }
    }

    #[test]
    fn known_cuts() {
        assert_eq!(words("gpt-2", "I'll go  to 12345"), ["I", "'ll", " go", " ", " to", " 12345"]);
        assert_eq!(
            words("llama-bpe", "I'LL 12345\n\nx"),
            ["I", "'LL", " ", "123", "45", "\n\n", "x"]
        );
        assert_eq!(words("qwen2", "12"), ["1", "2"]);
        assert_eq!(words("starcoder", "a 12"), ["a", " ", "1", "2"]);
        assert_eq!(words("superbpe", "a 1234567 b"), ["a ", "1", "234", "567", " b"]);
        assert_eq!(words("afmoe", "a 1234567, b"), ["a", " ", "1", "234", "567", ",", " b"]);
        assert_eq!(words("exaone-moe", "We are 12\n\n"), ["We are", " ", "1", "2", "\n\n"]);
        assert_eq!(words("jais-2", "a       b"), ["a", "    ", "  ", " b"]);
        assert_eq!(words("ufakzeka", "Ali'nin"), ["Ali", "'nin"]);
        assert_eq!(words("youtu", "안녕，ab12"), ["안녕", "，", "ab", "1", "2"]);
        assert_eq!(words("chameleon", "IMGIMGABZ a.b"), ["IMGIMGABZ", " a", ".", "b"]);
    }

    #[test]
    fn a_name_that_is_not_in_the_table_has_no_recipe() {
        assert!(recipe("gpt-5").is_none());
        assert!(recipe("").is_none());
    }
}
