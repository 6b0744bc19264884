/* Memory that only the start of a process needed. */
#pragma once

/* Gives back what is free of the heap, and takes the programs' own files (code, constants: nothing that can be
 * written) out of this process's memory. They stay in the kernel's cache, and what is needed again comes back by itself. */
void coto_pages_let_go(void);
