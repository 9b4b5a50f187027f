/* Chooses the part to play. */
#include "sbx.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "boot")) return boot(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "init")) return init();
    dprintf(2, "usage: sbx boot|init\n");
    return 2;
}
