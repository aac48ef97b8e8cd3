/* Rows of which a number is predicted: losses, and what constraints weigh on predictions.

   A row lies between two of some thresholds, in an interval: numbers from 0, below the first, to
   `n_levels`, from the last on. What constraints weigh on it is looked up in a table by its cell,
   or by its probable groups, and by its interval. What is measured is summed by cell and interval.

   Formulas are those of losses.py; tasks/regression.py says what they are for. */

enum { PART = 256 }; /* rows that stay in the cache with all that is made of them */
enum { SQUARED, ABSOLUTE, QUANTILE, HUBER, PSEUDO_HUBER, POISSON, GAMMA, TWEEDIE };
enum { READS_PREDICTION = 1, READS_ACTUAL = 2, READS_LOSS = 4, READS_WEIGHT = 8 };

/* Of a part of a chunk. */
typedef struct {
    double score[PART], target[PART], weight[PART], loss_weight[PART], rate[PART];
    double plain[PART]; /* the score per unit of exposure */
    double power[PART]; /* e^score, or what the loss has of the kind: see `exponentials` */
    double other[PART]; /* e^((1 - shape) score), of a Tweedie loss */
    double value[PART], slope[PART], bend[PART], push[PART], more[PART];
    int64_t interval[PART];
    uint32_t cell[PART];
} Part;

INLINE int has_log_link(const Pass *r) { return r->kind >= POISSON; }

/* e^(a x): as `exponential`, on either side of 0. */
INLINE void exponential_of(const double *restrict x, double a, int m, double *restrict out) {
    const double log2_e = 1.4426950408889634, rounder = 6755399441055744.0;
    const double ln2_high = 0.6931471803691238, ln2_low = 1.9082149292705877e-10;
    const double lowest = -700.0, highest = 709.0;
    for (int i = 0; i < m; i++) {
        double t = a * x[i];
        double u = t < lowest ? lowest : t; /* NaN stays NaN: the loss must tell of it */
        u = u > highest ? highest : u;
        double y = u * log2_e + rounder;
        double k = y - rounder;
        double v = u - k * ln2_high - k * ln2_low;
        double v2 = v * v, v4 = v2 * v2, v8 = v4 * v4;
        double p0 = (1 + v) + v2 * (0.5 + v * (1.0 / 6));
        double p4 = (1.0 / 24 + v * (1.0 / 120)) + v2 * (1.0 / 720 + v * (1.0 / 5040));
        double p8 = (1.0 / 40320 + v * (1.0 / 362880)) + v2 * (1.0 / 3628800 + v * (1.0 / 39916800));
        double p = (p0 + v4 * p4) + v8 * (p8 + v4 * (1.0 / 479001600));
        uint64_t bits;
        double two_to_k;
        memcpy(&bits, &y, sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&two_to_k, &bits, sizeof bits);
        /* Beyond, there is no number: the loss must tell of that too. */
        out[i] = t > highest ? __builtin_inf() : p * two_to_k;
    }
}

INLINE void read_or_ones(const float *from, int64_t lo, int m, double *restrict to) {
    if (from)
        for (int i = 0; i < m; i++) to[i] = (double)from[lo + i];
    else
        for (int i = 0; i < m; i++) to[i] = 1.0;
}

INLINE void read_numbers(const Pass *r, int64_t lo, int m, Part *c) {
    read_cells(r, lo, m, c->cell);
    read_reals_double(r->scores, r->scores_size, lo, m, c->score);
    memcpy(c->target, r->target + lo, (size_t)m * sizeof(double));
    read_or_ones(r->weight, lo, m, c->weight);
    read_or_ones(r->loss_weight, lo, m, c->loss_weight);
    if (r->rate)
        memcpy(c->rate, r->rate + lo, (size_t)m * sizeof(double));
    else
        for (int i = 0; i < m; i++) c->rate[i] = 1.0;
}

/* One exponential of each row serves all that is made of it, but for a Tweedie loss. */
INLINE void exponentials(const Pass *r, int m, Part *c) {
    if (!has_log_link(r)) return;
    exponential_of(c->score, r->kind == GAMMA ? -1.0 : 1.0, m, c->power);
    if (r->kind == TWEEDIE) exponential_of(c->score, 1.0 - r->shape, m, c->other);
}

/* The prediction of each row per unit of exposure. */
INLINE void predictions(const Pass *r, int m, const Part *c, double *restrict out) {
    const double *restrict f = c->score, *restrict power = c->power, *restrict rate = c->rate;
    if (r->kind == GAMMA)
        for (int i = 0; i < m; i++) out[i] = rate[i] / power[i];
    else if (has_log_link(r))
        for (int i = 0; i < m; i++) out[i] = power[i] * rate[i];
    else
        for (int i = 0; i < m; i++) out[i] = f[i];
}

INLINE double size_of(double x) { return x >= 0 ? x : -x; }

/* The loss of each row. */
INLINE void values(const Pass *r, int64_t lo, int m, Part *c) {
    const double *restrict f = c->score, *restrict y = c->target, *restrict power = c->power;
    const double *restrict other = c->other;
    double *restrict out = c->value;
    const double d = r->shape;
    if (r->kind == SQUARED)
        for (int i = 0; i < m; i++) out[i] = (f[i] - y[i]) * (f[i] - y[i]) * 0.5;
    else if (r->kind == ABSOLUTE)
        for (int i = 0; i < m; i++) out[i] = size_of(f[i] - y[i]);
    else if (r->kind == QUANTILE)
        for (int i = 0; i < m; i++) {
            double away = f[i] - y[i];
            out[i] = away >= 0 ? (1 - d) * away : -d * away;
        }
    else if (r->kind == HUBER)
        for (int i = 0; i < m; i++) {
            double size = size_of(f[i] - y[i]);
            out[i] = size <= d ? size * size * 0.5 : d * (size - d * 0.5);
        }
    else if (r->kind == PSEUDO_HUBER)
        for (int i = 0; i < m; i++) {
            double part = (f[i] - y[i]) / d;
            out[i] = d * d * (__builtin_sqrt(1 + part * part) - 1);
        }
    else if (r->kind == POISSON)
        for (int i = 0; i < m; i++) out[i] = power[i] - y[i] * f[i];
    else if (r->kind == GAMMA)
        for (int i = 0; i < m; i++) out[i] = y[i] * power[i] + f[i];
    else
        for (int i = 0; i < m; i++)
            out[i] = power[i] * other[i] / (2 - d) - y[i] * other[i] / (1 - d);
    if (r->base)
        for (int i = 0; i < m; i++) out[i] += r->base[lo + i];
}

/* Gradient and Hessian of the loss of each row, as the engine has them. */
INLINE void slopes(const Pass *r, int m, Part *c) {
    const double *restrict f = c->score, *restrict y = c->target, *restrict power = c->power;
    const double *restrict other = c->other;
    double *restrict slope = c->slope, *restrict bend = c->bend;
    const double d = r->shape, least = r->closest, per_step = r->stepped;
    if (r->kind == SQUARED)
        for (int i = 0; i < m; i++) slope[i] = f[i] - y[i], bend[i] = 1.0;
    else if (r->kind == ABSOLUTE || r->kind == QUANTILE) {
        const double above = r->kind == ABSOLUTE ? 1.0 : 1.0 - d;
        const double below = r->kind == ABSOLUTE ? -1.0 : -d;
        const double at = r->kind == ABSOLUTE ? 0.0 : above;
        const double part = r->kind == ABSOLUTE ? 1.0 : 0.5;
        for (int i = 0; i < m; i++) {
            double away = f[i] - y[i], size = size_of(away);
            slope[i] = away > 0 ? above : away < 0 ? below : at;
            bend[i] = part / (size < least ? least : size);
        }
    } else if (r->kind == HUBER)
        for (int i = 0; i < m; i++) {
            double away = f[i] - y[i];
            away = away < -d ? -d : away;
            slope[i] = away > d ? d : away, bend[i] = 1.0;
        }
    else if (r->kind == PSEUDO_HUBER)
        for (int i = 0; i < m; i++) {
            double away = f[i] - y[i], part = away / d, s = 1 / __builtin_sqrt(1 + part * part);
            slope[i] = away * s, bend[i] = s * s * s;
        }
    else if (r->kind == POISSON)
        for (int i = 0; i < m; i++) slope[i] = power[i] - y[i], bend[i] = power[i] * per_step;
    else if (r->kind == GAMMA)
        for (int i = 0; i < m; i++) bend[i] = y[i] * power[i], slope[i] = 1 - bend[i];
    else
        for (int i = 0; i < m; i++) {
            double far = y[i] * other[i], near = power[i] * other[i];
            slope[i] = near - far, bend[i] = (2 - d) * near - (1 - d) * far;
        }
}

/* Between which thresholds each row lies. Four at a time: each time a row is read and written. */
INLINE void find_intervals(const Pass *r, int64_t lo, int m, Part *c) {
    const double *restrict t = r->levels;
    double *restrict plain = c->plain;
    int64_t *restrict at = c->interval, k = 0;
    if (r->offset)
        for (int i = 0; i < m; i++) plain[i] = c->score[i] - r->offset[lo + i];
    else
        memcpy(plain, c->score, (size_t)m * sizeof(double));
    memset(at, 0, (size_t)m * sizeof *at);
    for (; k + 4 <= r->n_levels; k += 4) {
        const double t0 = t[k], t1 = t[k + 1], t2 = t[k + 2], t3 = t[k + 3];
        for (int i = 0; i < m; i++)
            at[i] += (int64_t)(plain[i] >= t0) + (plain[i] >= t1) + (plain[i] >= t2) +
                     (plain[i] >= t3);
    }
    for (; k < r->n_levels; k++) {
        const double t0 = t[k];
        for (int i = 0; i < m; i++) at[i] += plain[i] >= t0;
    }
}

/* How far each row is from the lower to the upper end of its interval, from 0 to 1. */
INLINE void find_places(const Pass *r, int m, Part *c, double *restrict near) {
    const double *restrict knots = r->knots;
    for (int i = 0; i < m; i++) {
        int64_t j = c->interval[i];
        double part = (c->plain[i] - knots[j]) * r->narrow[j];
        part = part < 0 ? 0.0 : part;
        near[i] = part > 1 ? 1.0 : part;
    }
}

/* What constraints weigh on a quantity of each row. Its column of the table is `first`, further on
   by the interval of the row where `by_interval` is 1; with `near`, it lies between that column
   and the next. */
INLINE void weigh(const Pass *r, int64_t lo, int m, const Part *c, int64_t first,
                  int64_t by_interval, const double *near, double *restrict out) {
    const int64_t width = r->width;
    for (int i = 0; i < m; i++) {
        const double *at = r->table + (int64_t)c->cell[i] * width + first +
                           by_interval * c->interval[i];
        out[i] = near ? at[0] + near[i] * (at[1] - at[0]) : at[0];
    }
    for (int64_t s = 0; s < r->n_soft; s++) {
        const Soft *soft = r->soft + s;
        for (int i = 0; i < m; i++) {
            const float *of_row = soft->memberships + (lo + i) * soft->n_groups;
            const double *on = soft->on_groups + first + by_interval * c->interval[i];
            double low = 0.0, high = 0.0;
            for (int64_t g = 0; g < soft->n_groups; g++) low += of_row[g] * on[g * width];
            if (near) {
                for (int64_t g = 0; g < soft->n_groups; g++) high += of_row[g] * on[g * width + 1];
                low += near[i] * (high - low);
            }
            out[i] += low;
        }
    }
}

/* What constraints add to gradient (`push`) and Hessian (`more`), before weights. */
INLINE void push_numbers(const Pass *r, int64_t lo, int m, Part *c) {
    double *restrict push = c->push, *restrict more = c->more, *restrict on = c->value;
    memset(push, 0, (size_t)m * sizeof *push);
    memset(more, 0, (size_t)m * sizeof *more);
    if (r->n_levels)
        find_intervals(r, lo, m, c);
    else
        memset(c->interval, 0, (size_t)m * sizeof *c->interval);
    if (r->at_prediction >= 0) {
        weigh(r, lo, m, c, r->at_prediction, r->by_interval, NULL, on);
        if (has_log_link(r)) {
            predictions(r, m, c, push);
            for (int i = 0; i < m; i++) {
                double steepest = r->kind == GAMMA     ? 1.0
                                  : r->kind == POISSON ? c->power[i]
                                                       : c->power[i] * c->other[i];
                double least = -r->most_up * c->loss_weight[i] * steepest;
                push[i] *= on[i];
                if (c->weight[i] * push[i] < least) push[i] = least / c->weight[i];
                more[i] = size_of(push[i]);
            }
        } else
            for (int i = 0; i < m; i++) push[i] = on[i];
    }
    if (r->at_loss >= 0) {
        weigh(r, lo, m, c, r->at_loss, 0, NULL, on);
        for (int i = 0; i < m; i++) {
            double k = r->of_deviance * on[i] * c->rate[i];
            push[i] += k * c->slope[i];
            more[i] += (k > 0 ? k : 0.0) * c->bend[i];
        }
    }
    if (r->at_steps >= 0) {
        find_places(r, m, c, c->plain);
        weigh(r, lo, m, c, r->at_steps, 1, c->plain, on);
        if (r->kind == POISSON)
            for (int i = 0; i < m; i++) push[i] += r->spread * c->power[i] * on[i];
        else if (r->kind == TWEEDIE)
            for (int i = 0; i < m; i++)
                push[i] += r->spread * c->power[i] * c->other[i] * on[i];
        else
            for (int i = 0; i < m; i++) push[i] += r->spread * on[i];
    }
}

/* In several lanes, always the same ones. */
INLINE double sum_in_lanes(const double *restrict weight, const double *restrict value, int m) {
    double lanes[8] = {0}, total = 0.0;
    int i = 0;
    for (; i + 8 <= m; i += 8)
        for (int j = 0; j < 8; j++) lanes[j] += weight[i + j] * value[i + j];
    for (; i < m; i++) total += weight[i] * value[i];
    for (int j = 0; j < 8; j++) total += lanes[j];
    return total;
}

INLINE double descend_numbers(const Pass *r, int64_t lo, int m, Part *c) {
    read_numbers(r, lo, m, c);
    exponentials(r, m, c);
    slopes(r, m, c);
    push_numbers(r, lo, m, c);
    double *restrict slope = c->slope, *restrict bend = c->bend;
    for (int i = 0; i < m; i++) {
        slope[i] = c->loss_weight[i] * slope[i] + c->weight[i] * c->push[i];
        bend[i] = c->loss_weight[i] * bend[i] + c->weight[i] * c->more[i];
    }
    write_reals_double(r->gradient, r->gradient_size, lo, m, slope);
    write_reals_double(r->hessian, r->gradient_size, lo, m, bend);
    values(r, lo, m, c);
    return sum_in_lanes(c->loss_weight, c->value, m);
}

/* Sums by cell and interval, one after the other in the order of the bits of `reads`: weight;
   prediction, its square; actual figure, its square, its product with the prediction; loss, its
   square. */
INLINE double measure_numbers(const Pass *r, int64_t lo, int m, Part *c, double *restrict sums) {
    read_numbers(r, lo, m, c);
    exponentials(r, m, c);
    values(r, lo, m, c);
    const int64_t intervals = r->n_levels + 1, reads = r->reads;
    double *restrict expected = c->push;
    if (r->n_levels) find_intervals(r, lo, m, c);
    if (reads & (READS_PREDICTION | READS_ACTUAL)) predictions(r, m, c, expected);
    if (reads)
        for (int i = 0; i < m; i++) {
            int64_t j = r->n_levels ? c->interval[i] : 0;
            double *at = sums + ((int64_t)c->cell[i] * intervals + j) * r->n_sums;
            double w = c->weight[i];
            if (reads & READS_WEIGHT) *at++ += w;
            if (reads & READS_PREDICTION) {
                *at++ += w * expected[i];
                *at++ += w * expected[i] * expected[i];
            }
            if (reads & READS_ACTUAL) {
                double actual = c->target[i] * c->rate[i];
                *at++ += w * actual;
                *at++ += w * actual * actual;
                *at++ += w * actual * expected[i];
            }
            if (reads & READS_LOSS) {
                double loss = r->of_deviance * c->value[i] * c->rate[i];
                *at++ += w * loss;
                *at++ += w * loss * loss;
            }
        }
    return sum_in_lanes(c->loss_weight, c->value, m);
}
