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
    tile_session_free(session);
    tile_session_free(NULL);
    tile_model_free(model);
    tile_model_free(NULL);
    return failures != 0;
}
