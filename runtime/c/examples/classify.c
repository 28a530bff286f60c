// Classifies a picture with a pack or a Tile file:
//
//     classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]
//
// PICTURE.f32 has the numbers of the model's input, in row-major order as floats. The probabilities
// are written in the same form.

#include <stdio.h>
#include <stdlib.h>
#include <tile.h>

// Prints the error and ends the program if a call failed.
static void check(tile_status status) {
    if (status != TILE_OK) {
        fprintf(stderr, "error: %s\n", tile_error_message());
        exit((int)status);
    }
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]\n");
        return 2;
    }
    tile_model *model = NULL;
    check(tile_model_load(arguments[1], &model));
    tile_session *session = NULL;
    check(tile_session_create(model, count > 4 ? arguments[4] : "cpu", &session));
    tile_model_free(model);

    const char *name = NULL;
    tile_dtype dtype = TILE_F32;
    const size_t *shape = NULL;
    size_t rank = 0;
    check(tile_session_input_info(session, 0, &name, &dtype, &shape, &rank));
    size_t elements = 1;
    for (size_t axis = 0; axis < rank; axis++) {
        elements *= shape[axis];
    }
    float *picture = malloc(elements * sizeof *picture);
    FILE *file = fopen(arguments[2], "rb");
    if (!picture || !file || fread(picture, sizeof *picture, elements, file) != elements) {
        fprintf(stderr, "error: %s does not have %zu floats\n", arguments[2], elements);
        return 1;
    }
    fclose(file);
    check(tile_session_set_input(session, name, TILE_F32, shape, rank, picture));
    free(picture);
    check(tile_session_run(session));

    const void *data = NULL;
    check(tile_session_output_info(session, 0, &name, NULL, NULL, NULL));
    check(tile_session_output(session, name, &dtype, &shape, &rank, &data));
    const float *probabilities = data;
    size_t classes = shape[rank - 1], best = 0;
    for (size_t class_ = 1; class_ < classes; class_++) {
        if (probabilities[class_] > probabilities[best]) {
            best = class_;
        }
    }
    printf("%zu %.4f\n", best, probabilities[best]);
    file = fopen(arguments[3], "wb");
    if (!file || fwrite(probabilities, sizeof *probabilities, classes, file) != classes) {
        fprintf(stderr, "error: cannot write %s\n", arguments[3]);
        return 3;
    }
    fclose(file);
    tile_session_free(session);
    return 0;
}
