use insta::assert_snapshot;
use tile_lang::format;

fn formatted(source: &str) -> String {
    let once = format(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    assert_eq!(format(&once).as_ref(), Ok(&once));
    once
}

#[test]
fn spaces_parentheses_and_names() {
    let source = "function f ( A[ M,N ],#Size ) -> ( O ) {
        B[i,2*j+3*(K-1):N,(M-1)/2]=+((A[i,j])*(B[j,i/2]+(A[(i),k]))),i-2*k<2*N;
        O=(A?B:C)?D:((A+B)-(A-B))*-(~A+2.50e3)<(((C)))?-(-A):-(A*B);
    }";
    assert_snapshot!(formatted(source), @"
    function f(A[M, N], Size) -> (O) {
        B[i, 2*j + 3*(K - 1): N, (M - 1) / 2] = +(A[i, j] * (B[j, i/2] + A[i, k])), i - 2*k < 2 * N;
        O = ((A ? B : C) ? D : (A + B - (A - B)) * -(~A + 2.50e3) < C) ? --A : -(A * B);
    }
    ");
}

#[test]
fn comments_and_blank_lines_stay() {
    let source = "// top\n\n\n// of f\nfunction f(A, // in the header\n B) -> (O) { // first\n\n\n T = A+ // inner
        B; // at T
        // before O


        O = T;

        // last
    } // after f
    function g(A) -> (O) { O = A; } // after g

    // end";
    assert_snapshot!(formatted(source), @"
    // top

    // of f
    // in the header
    function f(A, B) -> (O) {
        // first

        // inner
        T = A + B; // at T
        // before O

        O = T;

        // last
    } // after f

    function g(A) -> (O) { O = A; } // after g

    // end
    ");
}

#[test]
fn long_lines_break() {
    let source = "function convolution(Image[N, Height, Width, Channels], Kernel[KernelHeight, KernelWidth, Channels, Filters]) -> (Out) {
        [[pid(conv)]] Out[n, y, x, f: N, Height - 2 * (KernelHeight - 1), Width - 2 * (KernelWidth - 1), Filters] = +(Image[n, y + ky, x + kx, c] * Kernel[ky, kx, c, f]), y < Height - KernelHeight default Image no_defract;
        Short[n: N] = +(Image[n, some_long_index_name + 1, another_long_index_name, yet_another_long_index]), n < 3;
        Sum = FirstLongName * SecondLongName + ThirdLongName * FourthLongName - exp(FifthLongName - SixthLongName) / 2;
    }";
    assert_snapshot!(formatted(source), @"
    function convolution(
        Image[N, Height, Width, Channels],
        Kernel[KernelHeight, KernelWidth, Channels, Filters]
    ) -> (Out) {
        [[pid(conv)]]
        Out[n, y, x, f: N, Height - 2 * (KernelHeight - 1), Width - 2 * (KernelWidth - 1), Filters] =
            +(Image[n, y + ky, x + kx, c] * Kernel[ky, kx, c, f]),
            y < Height - KernelHeight default Image no_defract;
        Short[n: N] =
            +(Image[n, some_long_index_name + 1, another_long_index_name, yet_another_long_index]),
            n < 3;
        Sum = FirstLongName * SecondLongName
            + ThirdLongName * FourthLongName
            - exp(FifthLongName - SixthLongName) / 2;
    }
    ");
}

#[test]
fn layers_and_models() {
    let source = r#"import   "blocks.tile" ; // beside
    import "more.tile";
    layer Dense ( units,activation=linear , mode   in [ same,valid ]=same ) ( X[ ...,K ] , Mask=none )->(Y){
        param Kernel[ K,units ]=glorot_uniform( ) regularizer=l2( 0.01 );
        param Bias[slice(dims(X),0,1),units]=zeros() if use_bias else - 1 ; state Count[]=zeros();
        first , Second=X;
        $if=2; state = [ 1,[ ],"a b" ];
        update Count=Count+1; Y=(X|>f)|>(a?b:c)|>g(k=1)(X)|>(-h)|>[a,b];
    }
    function glorot() ( shape ) -> ( W ) { W=random_normal( shape,seed = 1 )*blocks[2*i-1](X) + (A|>f); }"#;
    assert_snapshot!(formatted(source), @r#"
    import "blocks.tile"; // beside
    import "more.tile";
    layer Dense(
        units,
        activation = linear,
        mode in [same, valid] = same
    )(X[..., K], Mask = none) -> (Y) {
        param Kernel[K, units] = glorot_uniform() regularizer = l2(0.01);
        param Bias[slice(dims(X), 0, 1), units] = zeros() if use_bias else -1;
        state Count[] = zeros();
        first, Second = X;
        $if = 2;
        state = [1, [], "a b"];
        update Count = Count + 1;
        Y = X |> f |> (a ? b : c) |> g(k = 1)(X) |> (-h) |> [a, b];
    }

    function glorot()(shape) -> (W) {
        W = random_normal(shape, seed = 1) * blocks[2*i - 1](X) + (A |> f);
    }
    "#);
}

#[test]
fn blocks() {
    let source = "model Net()(X) -> (Y) {
        // each
        for f,s in [[64,1],[128,2]] { // header
            X=X|>Conv(f,s); // conv

            // last
        } // after
        for x in l { X = x(X); }
        for x in l {}
        if a { B = 1; } else { B = 2; }
        if a {


            B = 1; }
        // between
        else if b // no brace yet
        { B = 2; } else { if c { B = 3; } // inner
        }
        if training{}
        else{}
        scan Zt in Z along 1,Mt in Mask along rank(Z)-1{ H=Zt+H; yield All=H; }
        Y=X;
    }
    model One(X) -> (Y) { for x in l { Y = x; } }";
    assert_snapshot!(formatted(source), @"
    model Net()(X) -> (Y) {
        // each
        for f, s in [[64, 1], [128, 2]] {
            // header
            X = X |> Conv(f, s); // conv

            // last
        } // after
        for x in l { X = x(X); }
        for x in l {}
        if a {
            B = 1;
        } else {
            B = 2;
        }
        if a {
            B = 1;
        } else if b {
            // between
            // no brace yet
            B = 2;
        } else {
            if c { B = 3; } // inner
        }
        if training {}
        scan Zt in Z along 1, Mt in Mask along rank(Z) - 1 {
            H = Zt + H;
            yield All = H;
        }
        Y = X;
    }

    model One(X) -> (Y) {
        for x in l { Y = x; }
    }
    ");
}

#[test]
fn long_lines_of_layers_break() {
    let source = "layer SeparableConvolution(filters, kernel_size, strides = 1, padding in [valid, same] = valid, use_bias = true)(Image[N, H, W, C]) -> (Out) {
        param DepthwiseKernel[kernel_height, kernel_width, Channels, depth_multiplier] = glorot_uniform(seed = 12) regularizer = l2(0.01) if use_depthwise else 1;
        Out = Image / 255 |> Convolution(filters, kernel_size, strides = strides) |> Flatten() |> Dense(128, activation = relu);
        scan FirstTimeStep in FirstVeryLongSequence along 1, SecondTimeStep in SecondVeryLongSequence along 1 { yield A = FirstTimeStep; }
    }";
    assert_snapshot!(formatted(source), @"
    layer SeparableConvolution(
        filters,
        kernel_size,
        strides = 1,
        padding in [valid, same] = valid,
        use_bias = true
    )(Image[N, H, W, C]) -> (Out) {
        param DepthwiseKernel[kernel_height, kernel_width, Channels, depth_multiplier] =
            glorot_uniform(seed = 12)
            regularizer = l2(0.01)
            if use_depthwise
            else 1;
        Out = Image / 255
            |> Convolution(filters, kernel_size, strides = strides)
            |> Flatten()
            |> Dense(128, activation = relu);
        scan FirstTimeStep in FirstVeryLongSequence along 1,
            SecondTimeStep in SecondVeryLongSequence along 1 {
            yield A = FirstTimeStep;
        }
    }
    ");
}

#[test]
fn a_broken_program_is_left_alone() {
    assert!(format("function (A) -> (O) { O = ; }").is_err());
}
