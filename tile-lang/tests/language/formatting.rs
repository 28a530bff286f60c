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
fn a_broken_program_is_left_alone() {
    assert!(format("function (A) -> (O) { O = ; }").is_err());
}
