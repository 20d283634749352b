package apikey

import (
	"encoding/hex"
	"fmt"
)

const minPepper = 32

// MaxPeppers limits the number of peppers in use. A key lookup uses each of them.
const MaxPeppers = 8

// Peppers decodes the peppers for Digests from hexadecimal. Each must have at least 32 bytes. An
// error has the number of the invalid pepper, never its value.
func Peppers(encoded []string) ([][]byte, error) {
	if len(encoded) == 0 || len(encoded) > MaxPeppers {
		return nil, fmt.Errorf("use 1 to %d peppers", MaxPeppers)
	}
	peppers := make([][]byte, len(encoded))
	for i, e := range encoded {
		pepper, err := hex.DecodeString(e)
		if err != nil || len(pepper) < minPepper {
			return nil, fmt.Errorf("pepper %d must be at least %d bytes in hexadecimal", i+1, minPepper)
		}
		peppers[i] = pepper
	}
	return peppers, nil
}
