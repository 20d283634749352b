package compress

import "hash/crc32"

// shift is the factor x^(8n) modulo the polynomial of CRC-32, in the bit order of its table. The checksum of a text a followed by a text b
// of n bytes is that of a, shifted by n, xor that of b (crc32_combine of zlib).
type shift uint32

const one shift = 1 << 31 // x^0

func newShift(n int) shift {
	s, square := one, one>>8 // x^8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			s = shift(square.apply(uint32(s)))
		}
		square = shift(square.apply(uint32(square)))
	}
	return s
}

// apply multiplies sum by s.
func (s shift) apply(sum uint32) (product uint32) {
	for ; s != 0; s <<= 1 {
		if s&one != 0 {
			product ^= sum
		}
		carry := sum & 1
		sum >>= 1
		sum ^= crc32.IEEE & -carry
	}
	return product
}
