use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn rows(text: &str, separator: char) -> Vec<Vec<String>> {
    let table = read(text, separator);
    std::iter::once(table.head).chain(table.rows).collect()
}

#[test]
fn quotes_hold_separators_lines_and_quotes() {
    let text = "\u{feff}name,said\r\n\"Elde, upper\",\"low\nfor \"\"years\"\"\"\r\n\nEnd,\n";
    assert_eq!(
        rows(text, ','),
        [
            vec!["name", "said"],
            vec!["Elde, upper", "low\nfor \"years\""],
            vec!["End", ""]
        ]
    );
    assert_eq!(rows("a\tb,c", '\t'), [vec!["a", "b,c"]]);
}

#[test]
fn broken_tables_are_shown_as_they_are() {
    assert_eq!(rows("a,\"b", ','), [vec!["a", "b"]]);
    assert_eq!(rows("a,b\"c,d", ','), [vec!["a", "b\"c", "d"]]);
    assert_eq!(
        read("", ','),
        Table {
            head: vec![],
            rows: vec![],
            more: false
        }
    );
}

#[test]
fn what_is_too_much_is_cut_and_said() {
    let long = read(&"x\n".repeat(ROWS + 2), ',');
    assert_eq!((long.rows.len(), long.more), (ROWS, true));
    let just = read(&"x\n".repeat(ROWS + 1), ',');
    assert_eq!((just.rows.len(), just.more), (ROWS, false));
    let wide = read(&format!("{}\n", "x,".repeat(COLUMNS + 5)), ',');
    assert_eq!((wide.head.len(), wide.more), (COLUMNS, true));
}

proptest! {
    #[test]
    fn what_was_written_is_read(cells in prop::collection::vec(prop::collection::vec("[a-z\",\n\r ]{0,6}x", 1..5), 1..6)) {
        let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
        let text: String = cells.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect();
        prop_assert_eq!(rows(&text, ','), cells);
    }
}
