//! Optimizers in optimizers.

use super::*;

/// Returns a program with two weights of one shape and two of others, for optimizers that wrap
/// others.
fn wrapped(optimizer: &str) -> String {
    format!(
        "optimizer Wrap(inner)(P, G) {{ inner(P, G); }}
         optimizer Older(inner)(P, G) {{ Nothing = inner(P, G); }}
         optimizer Two(first, second)(P, G) {{ Q = first(P, G); second(Q, G); }}
         optimizer Choose(matrices, others)(P, G) {{ if rank(P) == 2 {{ matrices(P, G); }} else {{ others(P, G); }} }}
         optimizer Averaged(inner, decay = 0.5)(P, G) {{
             state Average like P = zeros;
             update Average = decay * Average + (1 - decay) * inner(P, G);
         }}
         optimizer Lookahead(inner, every = 2, alpha = 0.5)(P, G) {{
             state Slow like P = zeros;
             Before = training_step() == 1 ? P : Slow;
             Fast = inner(P, G);
             Count = as_int(training_step(), 32);
             Now = Count - Count / every * every == 0;
             Next = Before + alpha * (Fast - Before);
             update Slow = Now ? Next : Before;
             update P = Now ? Next : Fast;
         }}
         model M(X[N, 4]) -> (Y) {{
             Y = X |> Dense(4, name = a, activation = tanh) |> Dense(4, name = b, activation = tanh) |> Dense(3, name = c);
         }}
         train M {{ loss = mse; {optimizer} batch_size = 4; shuffle = false; seed = 2; }}"
    )
}

#[test]
fn optimizers_in_optimizers_have_states_for_each_weight() {
    let samples = data(&[8, 4], &[8, 3]);
    for device in devices() {
        let weights = |optimizer: &str, epochs| {
            fitted(&wrapped(optimizer), &device, &samples, epochs).weights().unwrap()
        };
        let plain = weights("optimizer = Adam(0.05);", 2);
        let same = [
            "optimizer = Wrap(Adam(0.05));",
            "optimizer = Older(Adam(0.05));",
            "optimizer = Wrap(Wrap(Older(Adam(0.05))));",
            "inner = Adam(0.05); optimizer = Wrap(inner);",
            "optimizer = Choose(Adam(0.05), Wrap(Adam(0.05)));",
            "inner = Adam(0.05); optimizer = Choose(inner, inner);",
            "optimizer = Averaged(Adam(0.05));",
        ];
        for optimizer in same {
            assert_eq!(weights(optimizer, 2), plain, "{optimizer} on {}", device.name());
        }
        assert_ne!(weights("optimizer = Choose(Adam(0.05), SGD(0.05, momentum = 0.9));", 2), plain);
        // Two descents one after the other equal one with the sum of their rates.
        let twice = weights("optimizer = Two(SGD(0.05), SGD(0.1));", 2);
        for ((path, found), (_, expected)) in twice.iter().zip(weights("optimizer = SGD(0.15);", 2))
        {
            check(path, &found.to_f64s(), &expected.to_f64s(), 1e-6);
        }
        // The result is halfway back to the weights of two steps before.
        let [first, fast, slow] = ["SGD(0.0)", "SGD(0.05)", "Lookahead(SGD(0.05))"]
            .map(|o| weights(&format!("optimizer = {o};"), 1));
        for ((path, slow), ((_, first), (_, fast))) in slow.iter().zip(first.iter().zip(&fast)) {
            let middle: Vec<f64> =
                first.to_f64s().iter().zip(fast.to_f64s()).map(|(a, b)| (a + b) / 2.0).collect();
            check(path, &slow.to_f64s(), &middle, 1e-6);
        }
    }
}

#[test]
fn states_of_optimizers_in_optimizers_are_saved_by_stable_names() {
    let samples = data(&[8, 4], &[8, 3]);
    let path = file("optimizer");
    for device in devices() {
        let source =
            wrapped("optimizer = Averaged(Wrap(Two(Adam(0.05), SGD(0.01, momentum = 0.9))));");
        let mut whole = fitted(&source, &device, &samples, 4);
        fitted(&source, &device, &samples, 2).save(&path).unwrap();
        let saved = std::fs::read(&path).unwrap();
        let header = String::from_utf8_lossy(&saved).into_owned();
        for name in [
            "a.Kernel.Average",
            "b.Kernel.inner.inner.first.Momentum",
            "c.Bias.inner.inner.second.Momentum",
        ] {
            assert!(header.contains(&format!("\"train.optimizer.{name}\"")), "{name}");
        }
        let mut second = trainer(&source, &device);
        second.resume(&path).unwrap();
        second.fit(&samples, Fit::epochs(4)).unwrap();
        assert_eq!(whole.weights().unwrap(), second.weights().unwrap(), "{}", device.name());
        whole.save(&path).unwrap();
        let once = std::fs::read(&path).unwrap();
        second.save(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == once, "{}", device.name());
    }
    std::fs::remove_file(&path).unwrap();
}
