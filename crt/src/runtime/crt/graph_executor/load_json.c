/* The JSON reader. Deliberately no recursion: nesting is part of the text, and the stack is small.
 */
#include <string.h>
#include <tvm/runtime/crt/internal/graph_executor/load_json.h>

enum { kMaxDepth = 32, kEnd = -1 };

void TVMJson_Open(TVMJson *json, const char *text, size_t length) {
  json->text = text;
  json->length = length;
  json->at = 0;
  json->error = NULL;
}

void TVMJson_Fail(TVMJson *json, const char *what) {
  if (json->error == NULL) {
    json->error = what;
  }
}

/* The next character, as an unsigned number so that none is mistaken for the end. */
static int peek(const TVMJson *json) {
  if (json->error != NULL || json->at == json->length) {
    return kEnd;
  }
  return (unsigned char)json->text[json->at];
}

static int peek_token(TVMJson *json) {
  int c = peek(json);
  while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
    json->at++;
    c = peek(json);
  }
  return c;
}

/* Skips white space and, if it comes next, the character `c`. */
static int accept(TVMJson *json, char c) {
  if (peek_token(json) != c) {
    return 0;
  }
  json->at++;
  return 1;
}

void TVMJson_Begin(TVMJson *json, char open) {
  if (!accept(json, open)) {
    TVMJson_Fail(json, open == '{' ? "expected an object" : "expected a list");
  }
}

int TVMJson_More(TVMJson *json, char close, uint32_t done) {
  if (json->error != NULL || accept(json, close)) {
    return 0;
  }
  if (done > 0 && !accept(json, ',')) {
    TVMJson_Fail(json, "expected a comma or the closing bracket");
    return 0;
  }
  return 1;
}

static uint32_t hex4(TVMJson *json) {
  uint32_t value = 0;
  int i;
  for (i = 0; i < 4; i++) {
    const int c = peek(json);
    uint32_t digit;
    if (c >= '0' && c <= '9') {
      digit = (uint32_t)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = (uint32_t)(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = (uint32_t)(c - 'A') + 10;
    } else {
      TVMJson_Fail(json, "expected four hexadecimal digits");
      return 0;
    }
    value = value << 4 | digit;
    json->at++;
  }
  return value;
}

/* The code point of a \u escape whose "\u" has been read, surrogate pairs joined. */
static uint32_t unicode_escape(TVMJson *json) {
  const uint32_t first = hex4(json);
  uint32_t second;
  if (first < 0xd800 || first > 0xdfff) {
    return first;
  }
  if (first <= 0xdbff && peek(json) == '\\') {
    json->at++;
    if (peek(json) == 'u') {
      json->at++;
      second = hex4(json);
      if (second >= 0xdc00 && second <= 0xdfff) {
        return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
      }
    }
  }
  TVMJson_Fail(json, "half of a surrogate pair");
  return 0;
}

/* The character after a backslash, as a code point. */
static uint32_t escape(TVMJson *json) {
  static const char kLetters[] = "\"\\/bfnrt";
  static const char kMeanings[] = "\"\\/\b\f\n\r\t";
  const int c = peek(json);
  const char *const found = c > 0 ? strchr(kLetters, c) : NULL;
  if (c == 'u') {
    json->at++;
    return unicode_escape(json);
  }
  if (found == NULL) {
    TVMJson_Fail(json, "no such escape");
    return 0;
  }
  json->at++;
  return (unsigned char)kMeanings[found - kLetters];
}

/* Where the characters of a string go; `buffer` NULL drops them. */
typedef struct {
  char *buffer;
  size_t size;
  size_t used;
} Text;

static void put_byte(TVMJson *json, Text *out, uint32_t byte) {
  if (out->buffer == NULL) {
    return;
  }
  if (byte == 0) {
    TVMJson_Fail(json, "a string with NUL");
  } else if (out->used + 1 >= out->size) {
    TVMJson_Fail(json, "a string that is too long");
  } else {
    out->buffer[out->used++] = (char)byte;
  }
}

/* In UTF-8: a byte that says how many follow, then those, of six bits each. */
static void put_code_point(TVMJson *json, Text *out, uint32_t c) {
  static const uint8_t kLead[] = {0x00, 0xc0, 0xe0, 0xf0};
  unsigned following = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  put_byte(json, out, kLead[following] | c >> (6 * following));
  while (following > 0) {
    following--;
    put_byte(json, out, 0x80 | (c >> (6 * following) & 0x3f));
  }
}

static void read_string(TVMJson *json, Text *out) {
  if (!accept(json, '"')) {
    TVMJson_Fail(json, "expected a string");
  }
  while (json->error == NULL) {
    const int c = peek(json);
    if (c == kEnd || c < 0x20) {
      TVMJson_Fail(json, "a string without its closing quote");
      return;
    }
    json->at++;
    if (c == '"') {
      return;
    }
    if (c == '\\') {
      const uint32_t code_point = escape(json);
      if (json->error == NULL) {
        put_code_point(json, out, code_point);
      }
    } else {
      put_byte(json, out, (uint32_t)c); /* the bytes of UTF-8 pass as they are */
    }
  }
}

void TVMJson_String(TVMJson *json, char *buffer, size_t buffer_bytes) {
  Text out;
  out.buffer = buffer;
  out.size = buffer_bytes;
  out.used = 0;
  read_string(json, &out);
  buffer[json->error == NULL ? out.used : 0] = '\0';
}

void TVMJson_Key(TVMJson *json, char *buffer, size_t buffer_bytes) {
  TVMJson_String(json, buffer, buffer_bytes);
  if (!accept(json, ':')) {
    TVMJson_Fail(json, "expected a colon");
  }
}

int64_t TVMJson_Number(TVMJson *json, int64_t max) {
  int64_t value = 0;
  int c = peek_token(json);
  if (c == '-') {
    TVMJson_Fail(json, "a negative number");
  } else if (c < '0' || c > '9') {
    TVMJson_Fail(json, "expected a whole number");
  }
  while (json->error == NULL && c >= '0' && c <= '9') {
    const int digit = c - '0';
    if (value > (max - digit) / 10) { /* digit <= 9 <= max in every use */
      TVMJson_Fail(json, "a number that is too large");
      return 0;
    }
    value = value * 10 + digit;
    json->at++;
    c = peek(json);
  }
  if (c == '.' || c == 'e' || c == 'E') {
    TVMJson_Fail(json, "expected a whole number");
  }
  return json->error == NULL ? value : 0;
}

/* A number of any form, or true, false or null: letters, digits and signs are not looked into. */
static void skip_word(TVMJson *json) {
  const size_t start = json->at;
  int c = peek(json);
  while ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' ||
         c == '.') {
    json->at++;
    c = peek(json);
  }
  if (json->at == start) {
    TVMJson_Fail(json, "expected a value");
  }
}

static void skip_key(TVMJson *json) {
  Text nowhere = {NULL, 0, 0};
  read_string(json, &nowhere);
  if (!accept(json, ':')) {
    TVMJson_Fail(json, "expected a colon");
  }
}

void TVMJson_Skip(TVMJson *json) {
  uint32_t objects = 0; /* bit d: the bracket of depth d is a brace */
  uint32_t done = 0;    /* items of the innermost bracket; all that matters is whether any */
  int depth = 0;
  Text nowhere = {NULL, 0, 0};
  while (json->error == NULL) {
    const int c = peek_token(json);
    if (c == '{' || c == '[') {
      if (depth == kMaxDepth) {
        TVMJson_Fail(json, "nested too deeply");
        return;
      }
      json->at++;
      objects = c == '{' ? objects | 1u << depth : objects & ~(1u << depth);
      depth++;
      done = 0;
    } else {
      if (c == '"') {
        read_string(json, &nowhere);
      } else {
        skip_word(json);
      }
      done = 1;
    }
    while (depth > 0 && !TVMJson_More(json, objects >> (depth - 1) & 1 ? '}' : ']', done)) {
      if (json->error != NULL) {
        return;
      }
      depth--;
      done = 1;
    }
    if (depth == 0) {
      return;
    }
    if (objects >> (depth - 1) & 1) {
      skip_key(json);
    }
  }
}

void TVMJson_End(TVMJson *json) {
  if (peek_token(json) != kEnd) {
    TVMJson_Fail(json, "text after the end");
  }
}
