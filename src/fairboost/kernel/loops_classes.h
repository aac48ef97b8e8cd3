/* Rows that are given one of several classes: softmax, loss, and what constraints weigh on each
   class that may be given.

   Scores and gradients are tables of rows by classes, in either order, and are read and written
   where they lie. A part of them is brought into the order of classes, row beside row: what is the
   same for all classes is then one long loop, and what is not is a loop over rows.

   tasks/multiclass.py has the formulas. */

enum { ROOM = 1280 }; /* scores of a part: library.py has it too, as no row has more */

/* Of a part of a chunk. Tables have row i of class k of m rows at k m + i. */
typedef struct {
    double score[ROOM]; /* less the largest of the row */
    double p[ROOM], on[ROOM], stand_in[ROOM], expected[ROOM];
    double weight[PART], loss_weight[PART], best[PART], total[PART], value[PART], other[PART];
    double mean[PART];
    int64_t label[PART], given[PART];
    uint32_t cell[PART];
} ClassPart;

INLINE int rows_of_part(const Pass *r) {
    int64_t fit = ROOM / r->n_classes;
    return (int)(fit < PART ? fit : PART);
}

INLINE void read_table(const Pass *r, int64_t lo, int m, double *restrict to) {
    const int64_t classes = r->n_classes;
    if (r->scores_by_class)
        for (int64_t k = 0; k < classes; k++)
            read_reals_double(r->scores, r->scores_size, k * r->n + lo, m, to + k * m);
    else if (r->scores_size == 4)
        for (int i = 0; i < m; i++) {
            const float *of_row = (const float *)r->scores + (lo + i) * classes;
            for (int64_t k = 0; k < classes; k++) to[k * m + i] = of_row[k];
        }
    else
        for (int i = 0; i < m; i++) {
            const double *of_row = (const double *)r->scores + (lo + i) * classes;
            for (int64_t k = 0; k < classes; k++) to[k * m + i] = of_row[k];
        }
}

INLINE void write_table(const Pass *r, void *to, int64_t lo, int m, const double *restrict from) {
    const int64_t classes = r->n_classes;
    if (r->gradient_by_class)
        for (int64_t k = 0; k < classes; k++)
            write_reals_double(to, r->gradient_size, k * r->n + lo, m, from + k * m);
    else if (r->gradient_size == 4)
        for (int i = 0; i < m; i++) {
            float *of_row = (float *)to + (lo + i) * classes;
            for (int64_t k = 0; k < classes; k++) of_row[k] = (float)from[k * m + i];
        }
    else
        for (int i = 0; i < m; i++) {
            double *of_row = (double *)to + (lo + i) * classes;
            for (int64_t k = 0; k < classes; k++) of_row[k] = from[k * m + i];
        }
}

INLINE void read_class_rows(const Pass *r, int64_t lo, int m, ClassPart *c) {
    read_cells(r, lo, m, c->cell);
    read_table(r, lo, m, c->score);
    read_or_ones(r->weight, lo, m, c->weight);
    for (int i = 0; i < m; i++) c->label[i] = r->label[c->cell[i]];
    if (r->factor) /* in single precision, as engines keep weights */
        for (int i = 0; i < m; i++)
            c->loss_weight[i] = (double)((float)c->weight[i] * r->factor[c->label[i]]);
    else
        memcpy(c->loss_weight, c->weight, (size_t)m * sizeof(double));
}

/* Of each row the sum over classes. */
INLINE void sum_classes(const double *restrict of, int64_t classes, int m, double *restrict total) {
    memcpy(total, of, (size_t)m * sizeof(double));
    for (int64_t k = 1; k < classes; k++)
        for (int i = 0; i < m; i++) total[i] += of[k * m + i];
}

/* Of each row the shares of classes. */
INLINE void to_shares(double *restrict of, int64_t classes, int m, const double *restrict total,
                      double *restrict inverse) {
    for (int i = 0; i < m; i++) inverse[i] = 1.0 / total[i];
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) of[k * m + i] *= inverse[i];
}

/* Probabilities, and scores less the largest one. A score that is no number makes all of them none:
   the loss must tell of it. */
INLINE void probabilities(const Pass *r, int m, ClassPart *c) {
    const int64_t classes = r->n_classes;
    double *f = c->score, *best = c->best;
    memcpy(best, f, (size_t)m * sizeof(double));
    for (int64_t k = 1; k < classes; k++)
        for (int i = 0; i < m; i++) best[i] = f[k * m + i] > best[i] ? f[k * m + i] : best[i];
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) f[k * m + i] -= best[i];
    exponential_of(f, 1.0, (int)classes * m, c->p);
    sum_classes(c->p, classes, m, c->total);
    to_shares(c->p, classes, m, c->total, c->other);
}

/* log(x), for x from 1 on: log(2^k (1 + e)), with e from 0 to 1. */
INLINE void logarithm_of(const double *restrict x, int m, double *restrict small,
                         double *restrict out) {
    const uint64_t fraction = ((uint64_t)1 << 52) - 1, one = (uint64_t)1023 << 52;
    for (int i = 0; i < m; i++) {
        uint64_t bits;
        double scaled;
        memcpy(&bits, x + i, sizeof bits);
        bits = (bits & fraction) | one;
        memcpy(&scaled, &bits, sizeof scaled);
        small[i] = scaled - 1.0;
    }
    logarithm_double(small, m, out);
    for (int i = 0; i < m; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        double whole = (double)(int)((bits >> 52) - 1023);
        out[i] = x[i] != x[i] ? x[i] : out[i] + whole * 0.6931471805599453;
    }
}

/* The loss of each row, by its probabilities. */
INLINE double class_losses(int m, ClassPart *c) {
    logarithm_of(c->total, m, c->other, c->value);
    for (int i = 0; i < m; i++) c->value[i] -= c->score[c->label[i] * m + i];
    return sum_in_lanes(c->loss_weight, c->value, m);
}

/* What each class would cost, of each row, and the least of it in `best`. */
INLINE void expected_costs(const Pass *r, int m, ClassPart *c) {
    const int64_t classes = r->n_classes;
    const double *restrict p = c->p;
    double *restrict out = c->expected, *restrict best = c->best;
    memset(out, 0, (size_t)(classes * m) * sizeof(double));
    for (int64_t k = 0; k < classes; k++)
        for (int64_t j = 0; j < classes; j++) {
            const double cost = r->costs[j * classes + k];
            for (int i = 0; i < m; i++) out[k * m + i] += p[j * m + i] * cost;
        }
    memcpy(best, out, (size_t)m * sizeof(double));
    for (int64_t k = 1; k < classes; k++)
        for (int i = 0; i < m; i++) best[i] = out[k * m + i] < best[i] ? out[k * m + i] : best[i];
}

/* What constraints weigh on each class of each row. */
INLINE void weigh_classes(const Pass *r, int64_t lo, int m, ClassPart *c) {
    const int64_t classes = r->n_classes;
    double *restrict of_row = c->expected;
    for (int i = 0; i < m; i++) {
        memcpy(of_row, r->table + (int64_t)c->cell[i] * classes, (size_t)classes * sizeof(double));
        for (int64_t s = 0; s < r->n_soft; s++) {
            const Soft *soft = r->soft + s;
            const float *shares = soft->memberships + (lo + i) * soft->n_groups;
            const double *on = soft->on_groups + c->label[i] * soft->n_groups * classes;
            for (int64_t g = 0; g < soft->n_groups; g++) {
                const double share = shares[g];
                for (int64_t k = 0; k < classes; k++) of_row[k] += share * on[g * classes + k];
            }
        }
        for (int64_t k = 0; k < classes; k++) c->on[k * m + i] = of_row[k];
    }
}

/* Weights on classes become their slopes: s_k (c_k - sum_q c_q s_q), times a factor. */
INLINE void slopes_of_shares(const Pass *r, int m, double factor, ClassPart *c) {
    const int64_t classes = r->n_classes;
    double *s = c->stand_in, *on = c->on, *mean = c->mean;
    sum_classes(s, classes, m, c->total);
    to_shares(s, classes, m, c->total, c->other);
    memset(mean, 0, (size_t)m * sizeof(double));
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) mean[i] += on[k * m + i] * s[k * m + i];
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++)
            on[k * m + i] = factor * s[k * m + i] * (on[k * m + i] - mean[i]);
}

/* What constraints add to gradient (`on`) and Hessian (`stand_in`), before weights. */
INLINE void push_likeliest(const Pass *r, int m, ClassPart *c) {
    const int all = (int)r->n_classes * m;
    const double sharp = r->sharpness;
    double *p = c->p, *s = c->stand_in, *on = c->on;
    if (sharp == 1.0) /* which saves exponentials */
        memcpy(s, p, (size_t)all * sizeof(double));
    else
        exponential_of(c->score, sharp, all, s);
    slopes_of_shares(r, m, sharp, c);
    for (int i = 0; i < all; i++) {
        double bend = 2.0 * sharp * on[i] * (1.0 - 2.0 * s[i]);
        s[i] = bend > 0.0 ? bend : 0.0;
    }
}

/* The same by costs. Expected ones have derivatives p_m (C_mk - expected_k) by score m. */
INLINE void push_cheapest(const Pass *r, int m, ClassPart *c) {
    const int64_t classes = r->n_classes;
    double *p = c->p, *s = c->stand_in, *on = c->on;
    double *expected = c->expected, *mean = c->mean, *f = c->score;
    expected_costs(r, m, c);
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) f[k * m + i] = expected[k * m + i] - c->best[i];
    exponential_of(f, -r->cost_sharpness, (int)classes * m, s);
    slopes_of_shares(r, m, -r->cost_sharpness, c);
    memset(mean, 0, (size_t)m * sizeof(double));
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) mean[i] += on[k * m + i] * expected[k * m + i];
    for (int64_t j = 0; j < classes; j++) {
        double *through = f + j * m;
        for (int i = 0; i < m; i++) through[i] = -mean[i];
        for (int64_t k = 0; k < classes; k++) {
            const double cost = r->costs[j * classes + k];
            for (int i = 0; i < m; i++) through[i] += on[k * m + i] * cost;
        }
        for (int i = 0; i < m; i++) through[i] *= p[j * m + i];
    }
    for (int i = 0; i < (int)classes * m; i++) {
        on[i] = f[i];
        s[i] = 2.0 * r->sharpness * size_of(f[i]);
    }
}

INLINE double descend_classes(const Pass *r, int64_t lo, int m, ClassPart *c) {
    const int64_t classes = r->n_classes;
    double *p = c->p, *push = c->on, *bend = c->stand_in;
    read_class_rows(r, lo, m, c);
    probabilities(r, m, c);
    double loss = class_losses(m, c);
    if (r->table) {
        weigh_classes(r, lo, m, c);
        if (r->costs)
            push_cheapest(r, m, c);
        else
            push_likeliest(r, m, c);
        for (int64_t k = 0; k < classes; k++)
            for (int i = 0; i < m; i++) {
                push[k * m + i] *= c->weight[i];
                bend[k * m + i] *= c->weight[i];
            }
    } else {
        memset(push, 0, (size_t)(classes * m) * sizeof(double));
        memset(bend, 0, (size_t)(classes * m) * sizeof(double));
    }
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++)
            bend[k * m + i] +=
                c->loss_weight[i] * (r->curvature * p[k * m + i] * (1.0 - p[k * m + i]));
    for (int i = 0; i < m; i++) p[c->label[i] * m + i] -= 1.0;
    for (int64_t k = 0; k < classes; k++)
        for (int i = 0; i < m; i++) push[k * m + i] += c->loss_weight[i] * p[k * m + i];
    write_table(r, r->gradient, lo, m, push);
    write_table(r, r->hessian, lo, m, bend);
    return loss;
}

/* The class that each row is given: of equal ones the first. */
INLINE void decide(const Pass *r, int m, ClassPart *c, const double *restrict f, double sign) {
    double *restrict best = c->best;
    int64_t *restrict given = c->given;
    for (int i = 0; i < m; i++) best[i] = sign * f[i], given[i] = 0;
    for (int64_t k = 1; k < r->n_classes; k++)
        for (int i = 0; i < m; i++) {
            double x = sign * f[k * m + i];
            given[i] = x > best[i] ? k : given[i];
            best[i] = x > best[i] ? x : best[i];
        }
}

/* Weight of decisions by cell and class, and the loss. */
INLINE double measure_classes(const Pass *r, int64_t lo, int m, ClassPart *c,
                              double *restrict sums) {
    read_class_rows(r, lo, m, c);
    if (!r->costs) decide(r, m, c, c->score, 1.0);
    probabilities(r, m, c);
    if (r->costs) {
        expected_costs(r, m, c);
        decide(r, m, c, c->expected, -1.0);
    }
    for (int i = 0; i < m; i++)
        sums[(int64_t)c->cell[i] * r->n_classes + c->given[i]] += c->weight[i];
    return class_losses(m, c);
}
