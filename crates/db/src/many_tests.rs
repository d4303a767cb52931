use pretty_assertions::assert_eq;

use super::*;

#[test]
fn any_number_of_rows_is_covered_once_and_in_order() {
    let many = Many::new("insert into t (a, b)", 2);
    let rows: Vec<u32> = (0..1000).collect();
    let (mut rest, mut seen, mut sizes) = (rows.as_slice(), vec![], vec![]);
    while let Some((chunk, text)) = many.next(&mut rest) {
        assert_eq!(text.matches('(').count() - 1, chunk.len());
        sizes.push(chunk.len());
        seen.extend_from_slice(chunk);
    }
    assert_eq!(seen, rows);
    assert_eq!(sizes, [256, 256, 256, 128, 64, 32, 8]);
}

#[test]
fn the_text_numbers_its_placeholders() {
    let many = Many::new("insert into t (a, b, c)", 3);
    let (rows, text) = many.next(&mut [(), ()].as_slice()).unwrap();
    assert_eq!(
        (rows.len(), &*text),
        (2, "insert into t (a, b, c) values ($1,$2,$3),($4,$5,$6)")
    );
}
