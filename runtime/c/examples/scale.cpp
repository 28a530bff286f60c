// Compiles a program from text for two sizes, and reports errors as exceptions.

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <tile.h>
#include <vector>

namespace {

void check(tile_status status) {
    if (status != TILE_OK) {
        throw std::runtime_error(tile_error_message());
    }
}

struct Free {
    void operator()(tile_model *model) const { tile_model_free(model); }
    void operator()(tile_session *session) const { tile_session_free(session); }
};
using Model = std::unique_ptr<tile_model, Free>;
using Session = std::unique_ptr<tile_session, Free>;

Model compile(const std::string &source) {
    tile_model *model = nullptr;
    check(tile_model_compile(source.data(), source.size(), &model));
    return Model(model);
}

std::vector<float> scaled(tile_model *model, const std::vector<float> &x) {
    check(tile_model_set_dim(model, "N", x.size()));
    tile_session *created = nullptr;
    check(tile_session_create(model, "cpu", &created));
    Session session(created);
    const size_t shape[] = {x.size()};
    check(tile_session_set_input(session.get(), "X", TILE_F32, shape, 1, x.data()));
    check(tile_session_run(session.get()));
    const size_t *result_shape = nullptr;
    const void *data = nullptr;
    check(tile_session_output(session.get(), "Y", nullptr, &result_shape, nullptr, &data));
    const float *first = static_cast<const float *>(data);
    return std::vector<float>(first, first + result_shape[0]);
}

// Reads the input and writes the output where they are: nothing is copied.
void run_in_place(tile_model *model) {
    std::vector<float> x{1, 2}, y(2);
    check(tile_model_set_dim(model, "N", x.size()));
    tile_session *created = nullptr;
    check(tile_session_create(model, "cpu", &created));
    Session session(created);
    const size_t shape[] = {x.size()};
    check(tile_session_borrow_input(session.get(), "X", TILE_F32, shape, 1, x.data()));
    check(tile_session_set_output(session.get(), "Y", y.data(), y.size() * sizeof y[0]));
    for (float first : {10.0f, 20.0f}) {
        x[0] = first;
        check(tile_session_run(session.get()));
        std::printf("%g %g\n", y[0], y[1]);
    }
}

} // namespace

int main() {
    Model model = compile("function scale(X[N]) -> (Y) { Y = 2 * X + 1; }");
    for (const auto &x : {std::vector<float>{1, 2, 3}, std::vector<float>{4}}) {
        for (float y : scaled(model.get(), x)) {
            std::printf("%g ", y);
        }
    }
    std::printf("\n");
    run_in_place(model.get());
    try {
        compile("function wrong(X[N]) -> (Y) { Y = Z; }");
    } catch (const std::runtime_error &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
