/* The passes of loops.c over rows whose scores are in the memory of a GPU.

   CuPy compiles this file when it is first needed (cuda.py), with four types as macros:
   CELL is that of a cell's number, SCORE that of scores, GRAD that of gradients, and REAL that of
   arithmetic: float where scores and gradients are in single precision, as in loops.c.

   Sums are the same in every run. Losses are added up by each thread, then by each block in a
   fixed order, and the host adds up the blocks. Sums by cell are added up as whole numbers of a
   small unit, in whatever order threads come by: whole numbers have no rounding to depend on it.
   The grid depends on the number of rows alone. */

typedef long long int64;
typedef unsigned long long uint64;

enum { THREADS = 256, WARPS = THREADS / 32 };

/* Cells whose coefficients each block copies to its shared memory, in the precision of rows. */
enum { FEW_CELLS = 512 };

typedef struct {
    const float *memberships;
    const double *on_groups;
    int64 n_groups;
} Soft;

/* Rows below `at` go left; the others go right, and so do rows without a value if `feature` is the
   complement of the feature. A leaf leads to itself, and `at` is its value. */
typedef struct __align__(16) {
    float at;
    int feature, left, right;
} Node;

#define EACH_ROW(i, n)                                                                             \
    for (int64 i = blockIdx.x * (int64)THREADS + threadIdx.x; i < (n); i += gridDim.x * (int64)THREADS)

template <typename T> __device__ T size_of(T x) { return x >= 0 ? x : -x; }

template <typename T> __device__ T at_least(T x, T least) { return x < least ? least : x; }

/* e^-|d|. NaN stays NaN: the loss must show it. */
template <typename T> __device__ T small_of(T d) {
    const T lowest = sizeof(T) == 4 ? (T)-87 : (T)-700;
    T x = d < 0 ? d : -d;
    return exp(x < lowest ? lowest : x);
}

/* The sum over the threads of a block, in the same order every time; thread 0 has it. */
__device__ double sum_of_block(double value) {
    __shared__ double of_warps[WARPS];
    for (int step = 16; step; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    __syncthreads(); /* a sum before this one may still be read */
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    double total = 0.0;
    if (threadIdx.x == 0)
        for (int k = 0; k < WARPS; k++) total += of_warps[k];
    return total;
}

/* What groups weigh on a row by how likely it is of each. */
__device__ double softened(const Soft *soft, int n_soft, int64 row, int64 side) {
    double total = 0.0;
    for (int s = 0; s < n_soft; s++) {
        const int64 n = soft[s].n_groups;
        const float *of_row = soft[s].memberships + row * n;
        const double *on = soft[s].on_groups + side * n;
        for (int64 g = 0; g < n; g++) total += of_row[g] * on[g];
    }
    return total;
}

/* The default game: the logistic loss, and a sigmoid proxy of a positive decision. `by_cell` has
   pull, then bump, of every cell. The Hessian of a row of weight 1 is `least` or more. Of each block `totals` gets the loss and the gradient's sum,
   which is no finite number if any part of it is none. */
extern "C" __global__ void descend(int64 n, int n_cells, const CELL *cells, const float *weight,
                                   const SCORE *scores, double threshold, const double *by_cell,
                                   const int64 *side, const Soft *soft, int n_soft, double least,
                                   GRAD *gradient, GRAD *hessian, double *totals) {
    const REAL t = (REAL)threshold;
    double loss = 0.0, sum = 0.0;
    __shared__ REAL copy[2 * FEW_CELLS];
    const bool copied = n_cells <= FEW_CELLS;
    if (copied)
        for (int k = threadIdx.x; k < 2 * n_cells; k += THREADS) copy[k] = (REAL)by_cell[k];
    __syncthreads();
    EACH_ROW(i, n) {
        const int c = (int)cells[i];
        const REAL w = weight ? (REAL)weight[i] : (REAL)1, f = (REAL)scores[i];
        const REAL pull = (copied ? copy[c] : (REAL)by_cell[c]) * w;
        REAL step = (copied ? copy[n_cells + c] : (REAL)by_cell[n_cells + c]) * w;
        REAL bend = size_of(step);
        if (n_soft && side[c] >= 0) {
            const REAL other = (REAL)(softened(soft, n_soft, i, side[c]) * w);
            step += other;
            bend += size_of(other);
        }
        REAL small = small_of(f - t), far = 1 / (1 + small), near = small * far;
        step *= near * far;
        bend *= near * far * (far - near); /* changes its sign; a Hessian must not */
        if (threshold != 0.0) {
            small = small_of(f);
            far = 1 / (1 + small);
            near = small * far;
        }
        const bool wrong = (pull >= 0) == (f >= 0);
        step += pull * (wrong ? far : near);
        bend += size_of(pull) * (near * far);
        gradient[i] = (GRAD)step;
        hessian[i] = (GRAD)at_least(bend, (REAL)least * w);
        loss += size_of(pull) * (log1p(small) + (wrong ? size_of(f) : (REAL)0));
        sum += step;
    }
    loss = sum_of_block(loss);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        totals[2 * blockIdx.x] = loss;
        totals[2 * blockIdx.x + 1] = sum;
    }
}

/* Shared memory, as much as a call asks for. */
extern __shared__ __align__(16) uint64 room[];

/* Sums by cell of a block, in whole units: in shared memory if there is room, else in place. */
__device__ uint64 *open_sums(uint64 *sums, int n_sums, int has_room) {
    if (!has_room) return sums;
    for (int k = threadIdx.x; k < n_sums; k += THREADS) room[k] = 0;
    __syncthreads();
    return room;
}

__device__ void close_sums(uint64 *sums, const uint64 *ours, int n_sums) {
    if (ours == sums) return;
    __syncthreads();
    for (int k = threadIdx.x; k < n_sums; k += THREADS)
        if (ours[k]) atomicAdd(sums + k, ours[k]);
}

/* Weight of positive decisions by cell, in units of 1 / unit, and the loss. */
extern "C" __global__ void measure(int64 n, int n_cells, const CELL *cells, const float *weight,
                                   const SCORE *scores, double threshold, const double *pulls,
                                   double unit, int has_room, uint64 *sums, double *totals) {
    uint64 *ours = open_sums(sums, n_cells, has_room);
    double loss = 0.0;
    EACH_ROW(i, n) {
        const int c = (int)cells[i];
        const double w = weight ? (double)weight[i] : 1.0, f = (double)scores[i];
        const double pull = pulls[c] * w;
        const SCORE exact = scores[i]; /* the loss in the precision that scores have */
        const bool positive = f >= threshold, wrong = (pull >= 0) == (f >= 0);
        loss += size_of(pull) * ((double)log1p(small_of(exact)) + (wrong ? size_of(f) : 0.0));
        if (!weight) { /* one addition for all rows of a warp that are of one cell */
            const unsigned active = __activemask();
            const unsigned peers = __match_any_sync(active, positive ? c : -1);
            if (positive && __ffs(peers) - 1 == threadIdx.x % 32)
                atomicAdd(ours + c, (uint64)__popc(peers));
        } else if (positive) {
            atomicAdd(ours + c, (uint64)__double2ll_rn(w * unit));
        }
    }
    close_sums(sums, ours, n_cells);
    loss = sum_of_block(loss);
    if (threadIdx.x == 0) totals[blockIdx.x] = loss;
}

/* What the trees of a round say of all rows is added to the sums of the rows in `which`, in their
   order; their scores are the sums and what each row starts from. */
extern "C" __global__ void advance(int64 n, const int *which, const float *leaves, float *sums,
                                   float start, const float *starts, float *scores) {
    EACH_ROW(i, n) {
        const float sum = sums[i] + leaves[which ? which[i] : i];
        sums[i] = sum;
        scores[i] = sum + (starts ? starts[i] : start);
    }
}

/* The same for rows that are sent down a tree here. SCORE is the type of the table. */
extern "C" __global__ void fall(int64 n, const int *which, const SCORE *table, int64 per_row,
                                int64 per_column, float missing, const Node *nodes, int n_nodes,
                                int has_room, float *sums, float start, const float *starts,
                                float *scores) {
    const Node *tree = nodes;
    if (has_room) {
        Node *ours = (Node *)room;
        for (int k = threadIdx.x; k < n_nodes; k += THREADS) ours[k] = nodes[k];
        __syncthreads();
        tree = ours;
    }
    EACH_ROW(i, n) {
        const SCORE *row = table + (which ? which[i] : i) * per_row;
        int at = 0;
        Node node = tree[0];
        while (node.left != at) {
            const int feature = node.feature < 0 ? ~node.feature : node.feature;
            const float x = (float)row[feature * per_column];
            const bool none = x != x || x == missing;
            at = (none ? node.feature < 0 : !(x < node.at)) ? node.right : node.left;
            node = tree[at];
        }
        const float sum = sums[i] + node.at;
        sums[i] = sum;
        scores[i] = sum + (starts ? starts[i] : start);
    }
}

/* The paper's game: the slope of the loss, scaled and shifted by cell, and sums by cell of weights
   of positive decisions, losses and scores. `by_cell` has away, scale, shift and curve. Losses and
   scores are cut at `most`, so that no sum is too large for its unit. */
extern "C" __global__ void sum_and_descend(int64 n, int n_cells, const CELL *cells,
                                           const float *weight, const SCORE *scores,
                                           double threshold, const double *by_cell, double unit,
                                           double unit_of_sums, double most, int has_room,
                                           double least, uint64 *sums, GRAD *gradient,
                                           GRAD *hessian, double *totals) {
    uint64 *ours = open_sums(sums, 3 * n_cells, has_room);
    const double *away = by_cell, *scale = away + n_cells;
    const double *shift = scale + n_cells, *curve = shift + n_cells;
    double total = 0.0, sum = 0.0;
    EACH_ROW(i, n) {
        const int c = (int)cells[i];
        const double w = weight ? (double)weight[i] : 1.0, f = (double)scores[i];
        const double u = away[c] * f, small = small_of(f), far = 1 / (1 + small);
        const double near = small * far, loss = log1p(small) + (u > 0 ? u : 0.0);
        const double step = w * (scale[c] * (u >= 0 ? far : near) + shift[c]);
        gradient[i] = (GRAD)step;
        hessian[i] = (GRAD)at_least(curve[c] * w * near * far, least * w);
        if (f >= threshold) atomicAdd(ours + 3 * c, (uint64)__double2ll_rn(w * unit));
        /* Two's complement: a negative whole number is added as a large positive one. */
        const double kept = w * unit_of_sums;
        atomicAdd(ours + 3 * c + 1, (uint64)__double2ll_rn(kept * fmin(loss, most)));
        atomicAdd(ours + 3 * c + 2, (uint64)__double2ll_rn(kept * fmax(fmin(f, most), -most)));
        total += w * loss;
        sum += step;
    }
    close_sums(sums, ours, 3 * n_cells);
    total = sum_of_block(total);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        totals[2 * blockIdx.x] = total;
        totals[2 * blockIdx.x + 1] = sum;
    }
}

/* The same gradient with other weights. */
extern "C" __global__ void correct(int64 n, int n_cells, const CELL *cells, const float *weight,
                                   const double *by_cell, GRAD *gradient) {
    EACH_ROW(i, n) {
        const int c = (int)cells[i];
        const double w = weight ? (double)weight[i] : 1.0;
        gradient[i] = (GRAD)(by_cell[c] * (double)gradient[i] + w * by_cell[n_cells + c]);
    }
}
