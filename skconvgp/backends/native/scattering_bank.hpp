// The tables of a scattering transform, for images of one size. They are made once, and
// the same for all instruction sets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "scattering_task.hpp"

namespace skconvgp {

// Values below it, as a share of the largest of their table, are left out: rounding of
// single numbers is as large.
constexpr double NEGLIGIBLE = 1e-7;
// Positions of a stretch, where most products are negligible.
constexpr int STRETCH = 8;

// Lengths of Fourier transforms, whose order of numbers is that of Good and Thomas.
class Lengths {
   public:
    explicit Lengths(int n) {
        int even = 1;
        while (n % (2 * even) == 0) even *= 2;
        const int odd = n / even;
        int of_even = 0, of_odd = 0;  // 1 modulo one factor, and 0 modulo the other
        for (int k = 0; k < n; ++k) {
            if (k % even == 1 % even && k % odd == 0) of_even = k;
            if (k % odd == 1 % odd && k % even == 0) of_odd = k;
        }
        for (int q = 0; q < odd; ++q)
            for (int p = 0; p < even; ++p) in_.push_back((p * odd + q * even) % n);
        for (int p = 0; p < even; ++p)
            for (int q = 0; q < odd; ++q)
                out_.push_back((p * of_even + q * of_odd) % n);
        for (int q = 0; q < odd; ++q) {
            const double angle = 2.0 * 3.14159265358979323846 * q / odd;
            cosines_.push_back(float(std::cos(angle)));
            sines_.push_back(float(std::sin(angle)));
        }
        n_ = n, even_ = even, odd_ = odd;
    }
    FourierLength get() const {
        return {n_,          even_,           odd_,         in_.data(),
                out_.data(), cosines_.data(), sines_.data()};
    }

   private:
    int n_, even_, odd_;
    std::vector<int> in_, out_;
    std::vector<float> cosines_, sines_;
};

// The stretches of the rows of wavelets of one scale, for spectra of m x n numbers.
class Wavelets {
   public:
    Wavelets() = default;
    // `waves` is [step * step][n_angles][m / step][n / step].
    Wavelets(const double* waves, int n_angles, int m, int n, int step)
        : waves_(waves), n_angles_(n_angles), m_(m), n_(n), step_(step),
          rows_(m / step), columns_(n / step) {
        const size_t size = size_t(step) * m * n_angles * n / step;
        for (size_t i = 0; i < size; ++i)
            largest_ = std::max(largest_, std::fabs(waves[i]));
        const int length = step > 2 ? STRETCH : columns_;
        for (int angle = 0; angle < n_angles; ++angle)
            for (int a = 0; a < rows_; ++a) {
                first_.push_back(int(stretches_.size()));
                for (int begin = 0; begin < columns_;) {
                    int end = std::min(begin + length, columns_);
                    const std::vector<int> terms = terms_of(angle, a, begin, end);
                    while (end < columns_) {
                        const int next = std::min(end + length, columns_);
                        if (terms_of(angle, a, end, next) != terms) break;
                        end = next;
                    }
                    add(angle, a, begin, end, terms);
                    begin = end;
                }
            }
        first_.push_back(int(stretches_.size()));
        waves_ = nullptr;
    }
    Waves get() const {
        return {first_.data(), stretches_.data(), offsets_.data(), weights_.data()};
    }

   private:
    const double* waves_ = nullptr;
    int n_angles_, m_, n_, step_, rows_, columns_;
    double largest_ = 0.0;
    std::vector<int> first_, offsets_;
    std::vector<Stretch> stretches_;
    std::vector<float> weights_;

    double value(int block, int angle, int a, int b) const {
        return waves_[((size_t(block) * n_angles_ + angle) * rows_ + a) * columns_ + b];
    }

    bool is_mirrored(int block, int a) const {
        return a + block / step_ * rows_ > m_ / 2;
    }

    // The blocks of frequencies that count there, those of stored rows first.
    std::vector<int> terms_of(int angle, int a, int begin, int end) const {
        std::vector<int> plain, mirrored;
        for (int block = 0; block < step_ * step_; ++block) {
            bool counts = false;
            for (int b = begin; b < end; ++b)
                counts |= std::fabs(value(block, angle, a, b)) > NEGLIGIBLE * largest_;
            if (counts) (is_mirrored(block, a) ? mirrored : plain).push_back(block);
        }
        plain.insert(plain.end(), mirrored.begin(), mirrored.end());
        return plain;
    }

    void add(int angle, int a, int begin, int end, const std::vector<int>& terms) {
        Stretch stretch{begin, end - begin,          0,
                        0,     int(offsets_.size()), int(weights_.size())};
        for (int block : terms) {
            const int row = a + block / step_ * rows_;
            const int column = begin + block % step_ * columns_;
            const bool mirrored = is_mirrored(block, a);
            offsets_.push_back(mirrored ? (m_ - row) * (n_ + 1) + n_ - column
                                        : row * (n_ + 1) + column);
            ++(mirrored ? stretch.n_mirrored : stretch.n_plain);
        }
        // The inverse transform divides by their number; a spectrum of two columns is
        // twice what it should be.
        const double factor = 0.5 / (double(rows_) * columns_);
        for (int b = begin; b < end; ++b)
            for (int block : terms)
                weights_.push_back(float(factor * value(block, angle, a, b)));
        stretches_.push_back(stretch);
    }
};

// Weights of averages, as windows of numbers that count.
class WindowTable {
   public:
    // `weights` is [n_averages][n].
    WindowTable(const double* weights, int n_averages, int n) {
        double largest = 0.0;
        for (int i = 0; i < n_averages * n; ++i)
            largest = std::max(largest, std::fabs(weights[i]));
        for (int k = 0; k < n_averages; k += 2) {
            const int together = std::min(2, n_averages - k);
            const auto counts = [&](int i) {
                double value = std::fabs(weights[k * n + i]);
                if (together == 2)
                    value = std::max(value, std::fabs(weights[(k + 1) * n + i]));
                return value > NEGLIGIBLE * largest;
            };
            bool adds = false;
            for (int begin = 0; begin < n;) {
                int end = begin;
                while (end < n && counts(end)) ++end;
                if (end > begin) {
                    windows_.push_back(
                        {k, together, begin, end - begin, int(weights_.size()), adds});
                    for (int i = begin; i < end; ++i)
                        for (int e = 0; e < together; ++e)
                            weights_.push_back(float(weights[(k + e) * n + i]));
                    adds = true;
                }
                begin = std::max(end, begin + 1);
            }
            if (!adds) windows_.push_back({k, together, 0, 0, 0, false});  // zeros
        }
    }
    Averages get() const {
        return {int(windows_.size()), windows_.data(), weights_.data()};
    }

   private:
    std::vector<Window> windows_;
    std::vector<float> weights_;
};

}  // namespace skconvgp
