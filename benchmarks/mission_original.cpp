// MISSION's authors' program over rows in memory: CPU seconds of its `process`, without its parser and its queue.
// Compiled by benchmarks/environments.py beside their sources; called with a file that benchmarks/jobs/mission.py writes:
// the number of rows and of entries (int64), then indptr (int64), indices (int32), values (float32), labels (int32).

#define main original_main
#include "mission_logistic.cpp"
#undef main

#include <cstdint>
#include <cstdio>
#include <ctime>

template <typename T>
std::vector<T> numbers(std::FILE* file, size_t count) {
    std::vector<T> found(count);
    if (std::fread(found.data(), sizeof(T), count, file) != count) std::exit(1);
    return found;
}

int main(int, char* argv[]) {
    std::FILE* file = std::fopen(argv[1], "rb");
    if (!file) return 1;
    const auto sizes = numbers<int64_t>(file, 2);
    const auto indptr = numbers<int64_t>(file, sizes[0] + 1);
    const auto indices = numbers<int32_t>(file, sizes[1]);
    const auto values = numbers<float>(file, sizes[1]);
    const auto labels = numbers<int32_t>(file, sizes[0]);
    std::vector<x_t> rows(sizes[0]);
    for (int64_t i = 0; i < sizes[0]; ++i) {
        rows[i].first = labels[i];
        for (int64_t k = indptr[i]; k < indptr[i + 1]; ++k) rows[i].second.push_back({indices[k], values[k]});
    }
    CMS<N> sketch(K, D);  // as in their main: pads one class to eight, so its 3 MB of cells are spread over 25
    tk_t topk;
    const std::clock_t start = std::clock();
    for (const x_t& row : rows) process(sketch, topk, row, true);
    std::printf("%.6f\n", double(std::clock() - start) / CLOCKS_PER_SEC);
    std::fflush(stdout);
    std::_Exit(0);  // their destructor deletes what was not made by new
}
