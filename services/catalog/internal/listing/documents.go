package listing

import "github.com/bytedance/sonic"

// Documents decodes stored listings and summaries like encoding/json, in a third of the time.
// Decoded strings share the memory of the document. That is safe because our own services wrote the
// documents with encoding/json, tests compare the results, and sonic falls back to encoding/json on
// an unsupported platform or Go release. Responses are encoded by encoding/json.
var Documents = sonic.Config{}.Froze()
