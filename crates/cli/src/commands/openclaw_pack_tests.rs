use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn the_check_sum_is_that_of_gzip() {
    assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc(b""), 0);
}

#[test]
fn tar_reads_it_back() {
    let large: Vec<u8> = (0..200_000u32).map(|n| (n * 7 % 251) as u8).collect();
    let mut packed = Packed::default();
    packed.add("package/a.txt", b"hello", 0o644);
    packed.add("package/empty", b"", 0o644);
    packed.add("package/bin/large", &large, 0o755);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.tgz");
    std::fs::write(&file, packed.finish()).unwrap();
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(&file)
        .arg("-C")
        .arg(folder.path())
        .stderr(Stdio::inherit())
        .status()
        .unwrap();
    assert!(status.success());
    let read = |name: &str| std::fs::read(folder.path().join("package").join(name)).unwrap();
    assert_eq!(read("a.txt"), b"hello");
    assert_eq!(read("empty"), b"");
    assert!(read("bin/large") == large);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |name: &str| {
        let file = folder.path().join("package").join(name);
        std::fs::metadata(file).unwrap().permissions().mode() & 0o111
    };
    assert_eq!((mode("a.txt"), mode("bin/large")), (0, 0o111));
}
