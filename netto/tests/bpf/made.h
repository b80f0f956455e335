/* What the programs of these tests are made of: of libbpf's headers as little as they need. */
#define SEC(name) __attribute__((section(name), used))
#define NO_PREALLOC 1
enum { HASH = 1, ARRAY = 2, PERCPU_HASH = 5, LRU_HASH = 9, LPM_TRIE = 11, TASK_STORAGE = 29 };
#define MAP(name, map_type, flags)          \
	struct {                            \
		int (*type)[map_type];      \
		int (*map_flags)[flags];    \
		int (*max_entries)[64];     \
		int *key;                   \
		long *value;                \
	} name SEC(".maps");

static long (*update)(void *map, void *key, void *value, long flags) = (void *)2;
static long (*delete)(void *map, void *key) = (void *)3;
static void *(*storage_get)(void *map, void *task, void *value, long flags) = (void *)156;
static long (*storage_delete)(void *map, void *task) = (void *)157;
static long (*loop)(unsigned turns, void *callback, void *ctx, long flags) = (void *)181;
/* bpf_timer_init, and what is not in the table in general. */
static long (*unknown)(void *) = (void *)169;
