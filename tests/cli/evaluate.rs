//! `tilec evaluate` and `tilec predict` on a trained model: the numbers of training come back, for
//! samples in each form.

use std::fs;

use serde_json::Value;

use crate::points::Points;

/// The points, with weights that were trained on them, and a table of them without targets.
fn trained(name: &str) -> Points {
    let case = Points::new(name);
    let table = fs::read_to_string(case.folder.join("points.csv")).unwrap();
    let bare: String =
        table.lines().map(|line| line.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    fs::write(case.folder.join("bare.csv"), bare).unwrap();
    let options =
        "--data @points.csv --validation @points.csv --save @w.safetensors --log @log.jsonl -q";
    case.run("train", options).ok();
    case
}

fn json(case: &Points, command: &str, options: &str) -> Vec<Value> {
    let run = case.run(command, &format!("{options} --json")).ok();
    run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn evaluation_gives_the_numbers_of_validation() {
    let case = trained("evaluate");
    let log = fs::read_to_string(case.folder.join("log.jsonl")).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    for options in ["", "--batch-size 60", "--batch-size 7"] {
        let [result] = &json(
            &case,
            "evaluate",
            &format!("--data @points.csv --weights @w.safetensors {options}"),
        )[..] else {
            panic!("one line")
        };
        assert_eq!(result["samples"], 60);
        assert_eq!(result["accuracy"], last["val_accuracy"], "{options}");
        // The loss is a mean of f32 sums in another order.
        let difference = result["loss"].as_f64().unwrap() - last["val_loss"].as_f64().unwrap();
        assert!(difference.abs() < 1e-6, "{options}: {difference}");
    }
    let table = case.run("evaluate", "--data @points.csv --weights @w.safetensors").ok();
    assert!(table.text().starts_with("loss      0."), "{}", table.text());
    assert!(table.err.contains("60 samples in "), "{}", table.err);
    let untrained = case.run("evaluate", "--data @points.csv").ok();
    assert!(untrained.err.contains("initial values"), "{}", untrained.err);
}

#[test]
fn predictions_are_those_that_the_accuracy_counts() {
    let case = trained("predict");
    let rows = json(&case, "predict", "@points.csv --weights @w.safetensors --top 2");
    assert_eq!(rows.len(), 60);
    let labels = fs::read_to_string(case.folder.join("points.csv")).unwrap();
    let labels: Vec<u64> =
        labels.lines().skip(1).map(|line| line[line.len() - 1..].parse().unwrap()).collect();
    let right = rows
        .iter()
        .zip(&labels)
        .filter(|(row, label)| row["classes"][0]["index"] == **label)
        .count();
    let result = &json(&case, "evaluate", "--data @points.csv --weights @w.safetensors")[0];
    let accuracy = result["accuracy"].as_f64().unwrap();
    assert!((accuracy - right as f64 / 60.0).abs() < 1e-6, "{accuracy} and {right} of 60");
    let sum = rows[0]["classes"][0]["score"].as_f64().unwrap()
        + rows[0]["classes"][1]["score"].as_f64().unwrap();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    // A table without targets, and batches of another size, give the same.
    let bare = json(&case, "predict", "@bare.csv --weights @w.safetensors --top 2 --batch-size 60");
    for (row, bare) in rows.iter().zip(&bare) {
        assert_eq!(row["classes"][0]["index"], bare["classes"][0]["index"]);
    }
    fs::write(case.folder.join("labels.txt"), "outside\ninside\n").unwrap();
    let named =
        case.run("predict", "@points.csv --weights @w.safetensors --labels @labels.txt").ok();
    let first = if rows[0]["classes"][0]["index"] == 1 { "inside" } else { "outside" };
    assert!(
        named.text().lines().next().unwrap().contains(&format!("[0]  {first} 0.")),
        "{}",
        named.text()
    );
}

#[test]
fn wrong_inputs_are_refused() {
    let case = trained("predict_wrong");
    fs::write(case.folder.join("three.csv"), "a,b,c,d\n1,2,3,4\n").unwrap();
    for (command, options, code, said) in [
        ("predict", "@points.csv", 1, "give them with `--weights FILE`"),
        ("predict", "@none.csv --weights @w.safetensors", 1, "none.csv"),
        ("predict", "@points.tile --weights @w.safetensors", 1, "expected a picture"),
        ("predict", "@three.csv --weights @w.safetensors", 1, "three.csv"),
        ("predict", "@. --weights @w.safetensors", 1, "there are no pictures in it"),
        ("predict", "@points.csv --weights @none.npz", 1, "none.npz"),
        ("evaluate", "--weights @w.safetensors", 2, "--data"),
        ("evaluate", "--data @none --weights @w.safetensors", 1, "there is no such file"),
        ("evaluate", "--data @points.csv --shape Point=3x2", 2, "the data say the shapes"),
    ] {
        let run = case.run(command, options);
        assert_eq!(run.code, code, "{command} {options}: {}", run.err);
        assert!(run.err.contains(said), "{command} {options}: {}", run.err);
    }
}

/// The names of folders are saved with the weights. Later data and results have the same names,
/// though one folder alone would be class 0.
#[test]
fn classes_keep_their_names() {
    let case = Points::new("classes");
    let program = "
        model Brightness(Image[N, 8, 8, 3]) -> (Logits) { Logits = Image / 255 |> Flatten() |> Dense(2); }
        train Brightness {
            loss = SparseCategoricalCrossentropy(from_logits = true);
            optimizer = Adam(0.05);
            metrics = [SparseCategoricalAccuracy(name = accuracy)];
        }";
    fs::write(case.folder.join("points.tile"), program).unwrap();
    for (folder, level) in [("all/dark", 10), ("all/light", 220), ("new/light", 230)] {
        fs::create_dir_all(case.folder.join(folder)).unwrap();
        for number in 0..4 {
            let picture = image::RgbImage::from_pixel(8, 8, image::Rgb([level + 4 * number; 3]));
            picture.save(case.folder.join(folder).join(format!("{number}.png"))).unwrap();
        }
    }
    case.run("train", "--data @all --epochs 30 --save @w.safetensors -q").ok();
    let result = &json(&case, "evaluate", "--data @new --weights @w.safetensors")[0];
    assert_eq!((&result["samples"], &result["accuracy"]), (&Value::from(4), &Value::from(1.0)));
    let found = case.run("predict", "@new @all/dark/0.png --weights @w.safetensors").ok();
    let names: Vec<&str> =
        found.text().lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["light", "light", "light", "light", "dark"]);
    // A folder with a class that the weights do not know, and training that goes on.
    fs::rename(case.folder.join("new/light"), case.folder.join("new/blue")).unwrap();
    let refused = case.run("evaluate", "--data @new --weights @w.safetensors");
    assert!(refused.code == 1 && refused.err.contains("blue"), "{}", refused.err);
    case.run("train", "--data @all --epochs 31 --resume @w.safetensors --save @again.npz -q").ok();
    let found = case.run("predict", "@all/dark/0.png --weights @again.npz").ok();
    assert!(found.text().contains("  dark "), "{}", found.text());
}

/// Columns are found by the names that they had in training, in any order and among others.
#[test]
fn columns_keep_their_names() {
    let case = trained("columns");
    let table = fs::read_to_string(case.folder.join("bare.csv")).unwrap();
    let rows = |cells: &dyn Fn(&str, &str) -> String| -> String {
        table.lines().map(|line| line.split_once(',').unwrap()).map(|(x, y)| cells(x, y)).collect()
    };
    let turned = rows(&|x, y| format!("0.5,{y},{},{x}\n", if x == "x" { "inside" } else { "1" }));
    let turned = turned.replacen("0.5,", "more,", 1);
    fs::write(case.folder.join("turned.csv"), turned).unwrap();
    let classes = |file: &str| {
        let found = case.run("predict", &format!("@{file} --weights @w.safetensors --top 2")).ok();
        found.text().replace(&case.path(file), "")
    };
    assert_eq!(classes("turned.csv"), classes("bare.csv"));
    let loss = |file: &str| {
        let options = format!("--data @{file} --weights @w.safetensors");
        json(&case, "evaluate", &options)[0]["loss"].as_f64().unwrap()
    };
    let all_inside = table.replace('\n', ",1\n").replacen(",1", ",inside", 1);
    fs::write(case.folder.join("ones.csv"), all_inside).unwrap();
    assert_eq!(loss("turned.csv"), loss("ones.csv"));
    // The target has its name, too: another column that is last is not taken for it.
    let ones = fs::read_to_string(case.folder.join("ones.csv")).unwrap();
    let longer = ones.replace('\n', ",7\n").replacen(",7", ",other", 1);
    fs::write(case.folder.join("longer.csv"), longer).unwrap();
    assert_eq!(loss("longer.csv"), loss("ones.csv"));
    let refused = case.run("evaluate", "--data @bare.csv --weights @w.safetensors");
    let said = "there is no column `inside`, which the model was trained on: there are x, y";
    assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
    fs::write(
        case.folder.join("named.csv"),
        rows(&|x, y| format!("{x},{y}\n")).replacen('y', "z", 1),
    )
    .unwrap();
    for (command, options) in [("predict", "@named.csv"), ("evaluate", "--data @named.csv")] {
        let refused = case.run(command, &format!("{options} --weights @w.safetensors"));
        let said = "there is no column `y`, which the model was trained on: there are x, z";
        assert!(refused.code == 1 && refused.err.contains(said), "{}", refused.err);
    }
    // Without names from training, a column is left out with a note.
    let program = "model Sum(Point[N, 2]) -> (Y) { Y = Point + 1; }";
    fs::write(case.folder.join("points.tile"), program).unwrap();
    let found = case.run("predict", "@points.csv").ok();
    assert!(found.err.contains("points.csv: not used as input: inside"), "{}", found.err);
}

/// The scale of pixel values is saved with the weights; a resumed run is compared with its data.
#[test]
fn the_form_of_data_is_saved() {
    let case = Points::new("form");
    let program = "
        model Level(Image[N, 2, 2, 1]) -> (Logits) { Logits = Image |> Flatten() |> Dense(2); }
        train Level { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.5); }";
    fs::write(case.folder.join("points.tile"), program).unwrap();
    for (class, level) in [("dark", 20), ("light", 200)] {
        fs::create_dir_all(case.folder.join("all").join(class)).unwrap();
        for number in 0..4 {
            let file = case.folder.join(format!("all/{class}/{number}.png"));
            image::GrayImage::from_pixel(2, 2, image::Luma([level + number])).save(file).unwrap();
        }
    }
    let options = "--data @all --validation 0.25 --pictures keras-tf --save @w.npz --epochs 2";
    case.run("train", options).ok();
    let shown =
        |options: &str| case.run("predict", &format!("@all --weights @w.npz {options}")).ok();
    let note = "pictures are scaled as in training: `--pictures keras-tf`";
    let (saved, same, other) = (shown(""), shown("--pictures keras-tf"), shown("--pictures raw"));
    assert_eq!(saved.text(), same.text());
    assert_ne!(saved.text(), other.text());
    assert!(saved.err.contains(note) && same.err.is_empty(), "{}{}", saved.err, same.err);
    assert!(other.err.contains("trained on pictures with `--pictures keras-tf`"), "{}", other.err);
    let evaluated = |options: &str| {
        json(&case, "evaluate", &format!("--data @all --weights @w.npz {options}"))[0]["loss"]
            .clone()
    };
    assert_eq!(evaluated(""), evaluated("--pictures keras-tf"));
    assert_ne!(evaluated(""), evaluated("--pictures raw"));
    let resumed = |options: &str| {
        case.run("train", &format!("--data @all --resume @w.npz --epochs 3 {options}")).ok().err
    };
    let same = resumed("--validation 0.25");
    assert!(same.contains(note) && !same.contains("the run "), "{same}");
    let kept =
        "the run kept back 0.25 of its samples for validation before, and keeps back 0.5 now";
    assert!(resumed("--validation 0.5").contains(kept));
    fs::remove_file(case.folder.join("all/dark/0.png")).unwrap();
    let fewer = resumed("--validation 0.25");
    assert!(fewer.contains("note: the run had 8 samples before, and has 7 now"), "{fewer}");
}

/// A label that the model has no class for is named by its line in a table, and by its picture in a
/// folder.
#[test]
fn wrong_labels_are_named_by_their_place() {
    let case = Points::new("wrong_labels");
    fs::write(case.folder.join("many.csv"), "x,y,inside\n0,0,1\n\n1,1,0\n1,0,7\n").unwrap();
    let rule = "the model has classes 0 to 1";
    let said = format!("label 7 in line 5 of {}: {rule}", case.path("many.csv"));
    for options in ["", "--validation 0.5", "--class-weight 1=2"] {
        let refused = case.run("train", &format!("--data @many.csv {options}"));
        assert!(refused.code == 1 && refused.err.contains(&said), "{options}: {}", refused.err);
    }
    let refused = case.run("evaluate", "--data @many.csv");
    assert!(refused.code == 1 && refused.err.contains(&said), "{}", refused.err);
    let program = crate::points::PROGRAM.replace("Point[N, 2]", "Point[N, 1, 2]");
    let program = program.replace("Point |> Dense(8", "Flatten()(Point) |> Dense(8");
    fs::write(case.folder.join("points.tile"), program).unwrap();
    for class in ["a", "b", "c"] {
        fs::create_dir_all(case.folder.join("all").join(class)).unwrap();
        let file = case.folder.join(format!("all/{class}/0.png"));
        image::GrayImage::from_pixel(2, 1, image::Luma([9])).save(file).unwrap();
    }
    let refused = case.run("train", "--data @all");
    let said = format!("label 2 in {}: {rule}", case.path("all/c/0.png"));
    assert!(refused.code == 1 && refused.err.contains(&said), "{}", refused.err);
}

/// 1,000 classes without names have those of ImageNet.
#[test]
fn a_thousand_classes_are_those_of_imagenet() {
    let case = Points::new("imagenet");
    fs::write(case.folder.join("points.tile"), "function same(X[N, 1000]) -> (Y) { Y = X + 0; }")
        .unwrap();
    let row = |cell: &dyn Fn(usize) -> String| (0..1000).map(cell).collect::<Vec<_>>().join(",");
    let scores = row(&|number| if number == 281 { "5" } else { "-5" }.to_owned());
    fs::write(
        case.folder.join("bare.csv"),
        format!("{}\n{scores}\n", row(&|number| format!("x{number}"))),
    )
    .unwrap();
    let found = case.run("predict", "@bare.csv").ok();
    assert!(
        found.text().starts_with(&format!("{}[0]  tabby 0.", case.path("bare.csv"))),
        "{}",
        found.text()
    );
    assert!(found.err.contains("those of ImageNet"), "{}", found.err);
    fs::write(case.folder.join("labels.txt"), "name\n".repeat(1000)).unwrap();
    assert!(
        case.run("predict", "@bare.csv --labels @labels.txt").ok().text().contains("  name 0.")
    );
}

/// An output with several axes, as of a segmentation, is no list of classes. Several
/// outputs are shown with their names.
#[test]
fn other_outputs_than_classes() {
    let case = Points::new("maps");
    let map = "model Map(X[N, 2]) -> (Y) { Y[n, i, c: N, 2, 2] = +(X[n, i] * X[n, c]); }
        train Map { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(); }";
    fs::write(case.folder.join("points.tile"), map).unwrap();
    fs::write(case.folder.join("bare.csv"), "a,b\n1,2\n").unwrap();
    let found = case.run("predict", "@bare.csv").ok();
    assert!(found.text().ends_with("  1.000000 2.000000 2.000000 4.000000\n"), "{}", found.text());
    fs::write(
        case.folder.join("points.tile"),
        "model Two(X[N, 2]) -> (Y, Z) { Y = X + 1; Z = 2 * X; }",
    )
    .unwrap();
    let found = case.run("predict", "@bare.csv").ok();
    let text = "bare.csv[0]  Y 2.000000 3.000000  Z 2.000000 4.000000\n";
    assert!(found.text().ends_with(text), "{}", found.text());
    let found = case.run("predict", "@bare.csv --json").ok();
    assert!(found.text().ends_with("\"outputs\":{\"Y\":[2.0,3.0],\"Z\":[2.0,4.0]}}\n"));
    let found = case.run("predict", "@bare.csv --top 1").ok();
    assert!(found.text().ends_with("  Y 1 0.7311  Z 2.000000 4.000000\n"), "{}", found.text());
    let three = "model Three(X[N, 2]) -> (Mean, Kind, Shade) {
            Mean[c: 2] = +(X[n, c]); Kind = X; Shade = [X, X] |> Concatenate();
        }
        train Three { optimizer = SGD();
            loss = [none, SparseCategoricalCrossentropy(from_logits = true), SparseCategoricalCrossentropy(from_logits = true)]; }";
    fs::write(case.folder.join("points.tile"), three).unwrap();
    fs::write(case.folder.join("labels.txt"), "day\nnight\n").unwrap();
    fs::write(case.folder.join("bare.csv"), "a,b\n1,2\n3,4\n").unwrap();
    // `Mean` has two numbers, as many as there are samples.
    for size in ["", "--batch-size 1"] {
        let found = case.run("predict", &format!("@bare.csv --labels @labels.txt {size}")).ok();
        let text = "bare.csv[1]  Kind night 0.7311  Shade 1 0.3655\n";
        assert!(found.text().ends_with(text), "{}", found.text());
        assert!(found.err.contains("`Mean`, f32[2], has no axis of samples"), "{}", found.err);
    }
    let found = case.run("predict", "@bare.csv --json").ok();
    let classes = "{\"classes\":[{\"index\":1,\"label\":\"1\",\"score\":0.731";
    assert!(
        found.text().contains(&format!("\"outputs\":{{\"Kind\":{classes}")),
        "{}",
        found.text()
    );
    fs::write(case.folder.join("labels.txt"), "day\nnight\ndusk\n").unwrap();
    let found = case.run("predict", "@bare.csv --labels @labels.txt");
    assert!(found.err.contains("expected the names of 2 classes, found 3"), "{}", found.err);
}
