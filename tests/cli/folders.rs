//! Folders of pictures in which something is skipped, or has not the name that it should have.

use std::fs;

use crate::points::Points;

const CLASSIFIER: &str = "
model Level(Image[N, 2, 2, 1]) -> (Logits) { Logits = Image |> Flatten() |> Dense(2); }
train Level { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.001); }";

const SEGMENTER: &str = "
model Segment(Image[N, 2, 2, 1]) -> (Mask) { Mask = Image |> Conv2D(2, 1); }
train Segment { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.001); }";

/// Makes a program, and folders with a picture in each.
fn with_folders(name: &str, program: &str, folders: &[&str]) -> Points {
    let case = Points::new(name);
    fs::write(case.folder.join("points.tile"), program).unwrap();
    for folder in folders {
        fs::create_dir_all(case.folder.join(folder)).unwrap();
        let file = case.folder.join(format!("{folder}/0.png"));
        image::GrayImage::from_pixel(2, 2, image::Luma([1])).save(file).unwrap();
    }
    case
}

#[test]
fn what_is_skipped_is_named() {
    let case = with_folders("skipped", CLASSIFIER, &["all/cat", "all/dog"]);
    fs::create_dir_all(case.folder.join("all/empty")).unwrap();
    for file in ["all/cat/1.bmp", "all/cat/2.WEBP", "all/cat/notes.txt"] {
        fs::write(case.folder.join(file), "").unwrap();
    }
    let run = case.run("train", "--data @all").ok();
    let unread = format!(
        "note: not read: {} and 1 more: pictures are .png and .jpg files",
        case.path("all/cat/1.bmp")
    );
    let notes = run.notes();
    assert!(notes.contains(&&*unread), "{}", run.err);
    assert!(notes.contains(&"note: `empty` has no picture, and is no class"), "{}", run.err);
    assert!(run.err.contains("2 samples of f32[2, 2, 1] to train"), "{}", run.err);
    let run = case.run("predict", "@all --weights @none.npz");
    assert!(run.code == 1 && !run.err.contains("1.bmp"), "{}", run.err);
    case.run("train", "--data @all --save @w.npz -q").ok();
    let run = case.run("predict", "@all --weights @w.npz").ok();
    assert!(run.err.contains(&unread), "{}", run.err);
    fs::create_dir_all(case.folder.join("unread/cat")).unwrap();
    fs::write(case.folder.join("unread/cat/1.tiff"), "").unwrap();
    let refused = case.run("train", "--data @unread");
    let unread = format!("; not read: {}: pictures", case.path("unread/cat/1.tiff"));
    assert!(refused.code == 1 && refused.err.contains(&unread), "{}", refused.err);
}

#[test]
fn folders_have_the_names_of_inputs() {
    let case = with_folders("near", SEGMENTER, &["both/image", "both/masks"]);
    let refused = case.run("train", "--data @both");
    let said = "rename `image` to `Image`, `masks` to `Mask`";
    assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
    fs::rename(case.folder.join("both/image"), case.folder.join("both/Image")).unwrap();
    let refused = case.run("train", "--data @both");
    let said = "not used: `masks`, of which no input or output has the name; did you mean `Mask`?";
    assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
    fs::rename(case.folder.join("both/masks"), case.folder.join("both/Mask")).unwrap();
    case.run("train", "--data @both").ok();
    // Names of classes may be near to that of an input.
    let case = with_folders("near_classes", CLASSIFIER, &["all/images", "all/others"]);
    case.run("train", "--data @all").ok();
}

#[test]
fn classes_are_weighted_by_name() {
    let case = with_folders("weighted", CLASSIFIER, &["all/cat", "all/dog"]);
    let log = |weight: &str| {
        let options = format!("--data @all --class-weight {weight} --log @log.jsonl -q");
        fs::remove_file(case.folder.join("log.jsonl")).ok();
        case.run("train", &options).ok();
        let log = fs::read_to_string(case.folder.join("log.jsonl")).unwrap();
        log.split_once(",\"seconds").unwrap().0.to_owned()
    };
    assert_eq!(log("dog=5"), log("1=5"));
    assert_ne!(log("dog=5"), log("cat=5"));
    for (data, weight, said) in [
        ("all", "dgo=5", "there is no such class: they are cat, dog; did you mean `dog`?"),
        ("all", "2=5", "there is no such class: they are cat, dog"),
    ] {
        let refused = case.run("train", &format!("--data @{data} --class-weight {weight}"));
        assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
    }
    let case = Points::new("weighted_points");
    let refused = case.run("train", "--data @points.csv --class-weight 2=5");
    let said = "no sample has the class 2, which has a weight: the classes are 0, 1";
    assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
}

/// A file's name cannot send codes to the terminal.
#[test]
fn names_of_files_are_escaped() {
    let case = with_folders("escaped", CLASSIFIER, &["all/cat", "all/\u{1b}[2Jdog"]);
    let run = case.run("train", "--data @all --save @w.npz").ok();
    assert!(run.err.contains("the classes are 0 \\u{1b}[2Jdog, 1 cat"), "{}", run.err);
    let found = case.run("predict", "@all --weights @w.npz").ok();
    assert!(found.text().contains("\\u{1b}[2Jdog") && !found.text().contains('\u{1b}'));
    assert!(!run.err.contains('\u{1b}'), "{}", run.err);
}
