/* Constants whose bytes the assembler takes from a file, because C compilers need minutes and
 * gigabytes for arrays of many megabytes.
 *
 * The file, tvmgen_<module>.weights, is in codegen/host/include, so a compiler that finds headers
 * with -I finds it. Link-time optimisation assembles without -I: compile such a module with
 * -fno-lto.
 */
#ifndef MLF_WEIGHTS_H_
#define MLF_WEIGHTS_H_

#if !defined(__GNUC__) || !defined(__ELF__)
#error "mlf/weights.h: needs gcc or clang, and ELF; else compile the model with --weights text"
#elif defined(MLF_WEIGHTS) && !defined(MLF_WEIGHTS_SECTION)
#error "mlf/weights.h: name the section alone: -DMLF_WEIGHTS_SECTION='\".name\"'"
#endif

/* The application may choose the section of weights; by default each has its own. */
#ifdef MLF_WEIGHTS_SECTION
#define MLF_WEIGHTS_PLACE(symbol) MLF_WEIGHTS_SECTION
#else
#define MLF_WEIGHTS_PLACE(symbol) ".rodata." symbol
#endif

/* As in MLF_ALIGNED: a vector that spans two cache lines takes twice as long to load. */
#ifdef __AVX__
#define MLF_WEIGHTS_ALIGNMENT "64"
#else
#define MLF_WEIGHTS_ALIGNMENT "16"
#endif

/* Defines `symbol` in assembly: the `bytes` at `offset` of `file`. The numbers are literals,
 * because they become part of a string; `more` is more about the symbol, or "". */
#define MLF_WEIGHTS_SYMBOL(symbol, file, offset, bytes, more) \
  __asm__( \
      ".pushsection " MLF_WEIGHTS_PLACE(symbol) ",\"a\",%progbits\n" \
                                                ".balign " MLF_WEIGHTS_ALIGNMENT "\n" \
                                                ".globl " symbol "\n" \
                                                ".type " symbol ",%object\n" \
                                                ".size " symbol "," #bytes "\n" more symbol ":\n" \
                                                ".incbin \"" file "\"," #offset "," #bytes "\n" \
                                                ".popsection\n")

/* The same as a constant array that is private to this source. */
#define MLF_WEIGHTS_ARRAY(type, array, elements, symbol, file, offset, bytes) \
  MLF_WEIGHTS_SYMBOL(symbol, file, offset, bytes, ".hidden " symbol "\n"); \
  extern const type array[elements] __asm__(symbol) __attribute__((visibility("hidden")))

#endif /* MLF_WEIGHTS_H_ */
