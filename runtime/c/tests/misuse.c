// Wrong calls are errors, and leave the session usable.

#include <stdio.h>
#include <string.h>
#include <tile.h>

// Counts a call without the expected status, and prints it.
static int failures = 0;
#define EXPECT(expected, call) expect(expected, call, #call, __LINE__)

static void expect(tile_status expected, tile_status status, const char *call, int line) {
    if (status != expected) {
        failures++;
        printf("line %d: %s gives %d: %s\n", line, call, (int)status, tile_error_message());
    }
    if (status != TILE_OK && strlen(tile_error_message()) == 0) {
        failures++;
        printf("line %d: %s has no message\n", line, call);
    }
}

static float result(tile_session *session) {
    const void *data = NULL;
    EXPECT(TILE_OK, tile_session_run(session));
    EXPECT(TILE_OK, tile_session_output(session, "Y", NULL, NULL, NULL, &data));
    return data ? ((const float *)data)[0] : -1;
}

// Weights are described, loaded, set by name, and shared.
static void weights(void) {
    const char *source = "model M(X[N]) -> (Y) { param W[] = constant(3.0); Y = W * X; }";
    const char *vector = "model M(X[N]) -> (Y) { param W[N] = zeros(); Y = W * X; }";
    tile_model *model = NULL, *other = NULL;
    EXPECT(TILE_OK, tile_model_compile(source, strlen(source), &model));
    EXPECT(TILE_OK, tile_model_set_dim(model, "N", 1));
    tile_session *one = NULL, *two = NULL;
    EXPECT(TILE_OK, tile_session_create(model, "cpu", &one));
    size_t inputs = 0, outputs = 0, count = 0, rank = 9;
    EXPECT(TILE_OK, tile_session_counts(one, &inputs, &outputs, &count));
    const char *name = NULL;
    tile_dtype dtype = TILE_BOOL;
    EXPECT(TILE_OK, tile_session_weight_info(one, 0, &name, &dtype, NULL, &rank));
    if (inputs != 1 || outputs != 1 || count != 1 || strcmp(name, "W") != 0 ||
        dtype != TILE_F32 || rank != 0) {
        failures++;
        printf("the weight is not described\n");
    }
    EXPECT(TILE_ERROR_USAGE, tile_session_weight_info(one, 1, &name, NULL, NULL, NULL));
    EXPECT(TILE_ERROR_USAGE, tile_session_weight_info(NULL, 0, &name, NULL, NULL, NULL));

    const float x[] = {2}, w[] = {5};
    const size_t shape[] = {1};
    EXPECT(TILE_OK, tile_session_set_input(one, "X", TILE_F32, shape, 1, x));
    EXPECT(TILE_ERROR_INPUT, tile_session_run(one));
    EXPECT(TILE_ERROR_INPUT, tile_session_load_weights(one, "missing.safetensors"));
    EXPECT(TILE_ERROR_USAGE, tile_session_load_weights(one, NULL));
    EXPECT(TILE_OK, tile_session_initialise(one, 0));

    EXPECT(TILE_ERROR_USAGE, tile_session_create_sharing(NULL, one, &two));
    EXPECT(TILE_ERROR_USAGE, tile_session_create_sharing(model, NULL, &two));
    EXPECT(TILE_ERROR_USAGE, tile_session_create_sharing(model, one, NULL));
    EXPECT(TILE_OK, tile_model_compile(vector, strlen(vector), &other));
    EXPECT(TILE_OK, tile_model_set_dim(other, "N", 1));
    EXPECT(TILE_ERROR_INPUT, tile_session_create_sharing(other, one, &two));
    EXPECT(TILE_OK, tile_session_create_sharing(model, one, &two));
    EXPECT(TILE_OK, tile_session_set_input(two, "X", TILE_F32, shape, 1, x));
    EXPECT(TILE_ERROR_INPUT, tile_session_set_input(one, "W", TILE_F32, shape, 1, w));
    EXPECT(TILE_OK, tile_session_set_input(one, "W", TILE_F32, NULL, 0, w));
    if (result(one) != 10 || result(two) != 6) {
        failures++;
        printf("a shared weight is wrong\n");
    }
    tile_session_free(one);
    if (result(two) != 6) {
        failures++;
        printf("a shared weight went with the other session\n");
    }
    tile_session_free(two);
    tile_model_free(model);
    tile_model_free(other);
}

int main(void) {
    const char *source = "function f(X[N]) -> (Y, Z) { Y = 2 * X; Z = X + 1; }";
    tile_model *model = NULL;
    EXPECT(TILE_ERROR_USAGE, tile_model_compile(source, strlen(source), NULL));
    EXPECT(TILE_ERROR_USAGE, tile_model_compile(NULL, 3, &model));
    EXPECT(TILE_ERROR_INPUT, tile_model_compile("function", 8, &model));
    EXPECT(TILE_ERROR_INPUT, tile_model_load("missing.tilepack", &model));
    EXPECT(TILE_ERROR_INPUT, tile_model_from_pack((const uint8_t *)source, 10, &model));
    EXPECT(TILE_OK, tile_model_compile(source, strlen(source), &model));
    tile_session *session = NULL;
    EXPECT(TILE_ERROR_USAGE, tile_session_create(NULL, "cpu", &session));
    EXPECT(TILE_ERROR_INPUT, tile_session_create(model, "cpu", &session));
    EXPECT(TILE_ERROR_USAGE, tile_model_set_dim(model, NULL, 4));
    EXPECT(TILE_OK, tile_model_set_dim(model, "N", 4));
    EXPECT(TILE_ERROR_MACHINE, tile_session_create(model, "abacus", &session));
    EXPECT(TILE_OK, tile_session_create(model, "cpu", &session));

    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const size_t shape[] = {4}, wrong[] = {5};
    const void *data = NULL;
    EXPECT(TILE_ERROR_INPUT, tile_session_run(session));
    EXPECT(TILE_ERROR_USAGE, tile_session_output(session, "Y", NULL, NULL, NULL, &data));
    EXPECT(TILE_ERROR_USAGE, tile_session_set_input(session, "X", 99, shape, 1, x));
    EXPECT(TILE_ERROR_USAGE, tile_session_set_input(session, "X", TILE_F32, NULL, 1, x));
    EXPECT(TILE_ERROR_USAGE, tile_session_set_input(session, "X", TILE_F32, shape, 1, NULL));
    EXPECT(TILE_ERROR_INPUT, tile_session_set_input(session, "X", TILE_F32, wrong, 1, x));
    EXPECT(TILE_ERROR_INPUT, tile_session_set_input(session, "W", TILE_F32, shape, 1, x));
    EXPECT(TILE_ERROR_INPUT, tile_session_borrow_input(session, "X", TILE_I32, shape, 1, x));
    EXPECT(TILE_OK, tile_session_set_input(session, "X", TILE_F32, shape, 1, x));
    EXPECT(TILE_OK, tile_session_run(session));
    EXPECT(TILE_ERROR_INPUT, tile_session_output(session, "V", NULL, NULL, NULL, &data));
    EXPECT(TILE_OK, tile_session_output(session, "Y", NULL, NULL, NULL, &data));
    if (((const float *)data)[3] != 8) {
        failures++;
        printf("Y is wrong\n");
    }
    EXPECT(TILE_ERROR_USAGE, tile_session_set_output(session, "Y", y, 3));
    EXPECT(TILE_ERROR_INPUT, tile_session_set_output(session, "V", y, sizeof y));
    EXPECT(TILE_OK, tile_session_set_output(session, "Y", y, sizeof y));
    // No run has written this memory yet.
    EXPECT(TILE_ERROR_USAGE, tile_session_output(session, "Y", NULL, NULL, NULL, &data));
    EXPECT(TILE_OK, tile_session_set_output(session, "Z", y, sizeof y));
    EXPECT(TILE_ERROR_USAGE, tile_session_run(session));
    EXPECT(TILE_OK, tile_session_set_output(session, "Z", NULL, 0));
    EXPECT(TILE_OK, tile_session_borrow_input(session, "X", TILE_F32, shape, 1, y));
    EXPECT(TILE_ERROR_USAGE, tile_session_run(session));
    EXPECT(TILE_OK, tile_session_borrow_input(session, "X", TILE_F32, shape, 1, x));
    x[0] = 50;
    EXPECT(TILE_OK, tile_session_run(session));
    if (y[0] != 100) {
        failures++;
        printf("the borrowed input is not read: %g\n", y[0]);
    }
    EXPECT(TILE_OK, tile_session_output(session, "Y", NULL, NULL, NULL, &data));
    if (data != y) {
        failures++;
        printf("Y is elsewhere\n");
    }
    EXPECT(TILE_ERROR_USAGE, tile_session_input_info(session, 1, NULL, NULL, NULL, NULL));
    EXPECT(TILE_ERROR_USAGE, tile_session_weight_info(session, 0, NULL, NULL, NULL, NULL));
    EXPECT(TILE_ERROR_USAGE, tile_session_counts(NULL, NULL, NULL, NULL));
    EXPECT(TILE_OK, tile_session_counts(session, NULL, NULL, NULL));
    weights();
    tile_session_free(session);
    tile_session_free(NULL);
    tile_model_free(model);
    tile_model_free(NULL);
    return failures != 0;
}
