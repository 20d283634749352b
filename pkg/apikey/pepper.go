package apikey

import (
	"encoding/hex"
	"errors"
	"fmt"
)

const minPepper = 32

// Peppers decodes the peppers of Digests from hexadecimal. Each must have at least 32 bytes; an error tells which has not, and
// never its value.
func Peppers(encoded []string) ([][]byte, error) {
	if len(encoded) == 0 {
		return nil, errors.New("at least one pepper is needed")
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
