use pretty_assertions::assert_eq;

use super::{chart, escaped, shortened};
use crate::builtin::demo::words::Words;

#[test]
fn nothing_from_the_text_can_become_markup() {
    assert_eq!(
        escaped("<script a='b' c=\"d\">&"),
        "&lt;script a=&#39;b&#39; c=&quot;d&quot;&gt;&amp;"
    );
    let picture = chart(&Words::of("<script>alert('x')</script> it's & it's"));
    assert!(!picture.contains("<script"), "{picture}");
    assert!(picture.contains(">it&#39;s</text>"), "{picture}");
}

#[test]
fn bars_are_as_long_as_their_counts_and_only_ten() {
    let text: String = (0..12).map(|n| format!("w{n} ").repeat(12 - n)).collect();
    let picture = chart(&Words::of(&text));
    assert_eq!(picture.matches("class=\"bar\"").count(), 10);
    assert_eq!(
        picture
            .matches("width=\"440\" height=\"20\" rx=\"6\" fill=\"#2f6f6d\"")
            .count(),
        1
    );
    assert!(picture.contains("width=\"110\" height=\"20\" rx=\"6\" fill=\"#2f6f6d\""));
    assert!(chart(&Words::of("🎈")).contains("There were no words to count."));
}

#[test]
fn long_words_fit() {
    assert_eq!(shortened("donaudampfschifffahrt"), "donaudampfschifff…");
    assert_eq!(shortened("short"), "short");
}
