package ingress

// Choose returns the share of a split that a number x, of at least 0 and below 1,
// falls into: each as often as its weight says. It returns nil when no share has
// a weight.
func Choose(split []Share, x float64) *Share {
	var total uint64
	for i := range split {
		total += uint64(split[i].Weight)
	}
	at := x * float64(total)
	var sum uint64
	var last *Share
	for i := range split {
		if split[i].Weight == 0 {
			continue
		}
		sum += uint64(split[i].Weight)
		last = &split[i]
		if at < float64(sum) {
			break
		}
	}
	return last
}
