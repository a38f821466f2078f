package ipvs

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// toldErrors is how many refused requests of one call are told of.
const toldErrors = 10

// request makes one request.
func (k *kernel) request(ctx context.Context, r request) error { return k.makeAll(ctx, []request{r}) }

// makeAll makes requests of one lane in order, many in one call to the kernel.
// When some are refused it makes those again in order, one at a time and as the
// refusal asks for; what is refused for good is told with its object. Then the
// requests of later calls are not made, because they may rely on it.
func (k *kernel) makeAll(ctx context.Context, requests []request) error {
	for len(requests) > 0 {
		refused, seen, err := k.send(ctx, requests)
		if err != nil {
			return fmt.Errorf("netlink, request %d of %d: %w", seen+1, len(requests), err)
		}
		var failed []error
		for _, f := range refused {
			r := requests[f.request]
			if next, err := r.refused(f.errno); next == nil && err == nil {
				continue
			}
			err := k.again(ctx, r)
			switch {
			case errors.Is(err, errNoPlace):
				k.left = append(k.left, err)
			case errors.Is(err, errNoServer) && len(failed) > 0:
				// what is wrong with its virtual server is told already
			case err != nil:
				failed = append(failed, err)
			}
		}
		if more := len(failed) - toldErrors; more > 0 {
			failed = append(failed[:toldErrors], fmt.Errorf("and %d more", more))
		}
		if len(failed) > 0 {
			return errors.Join(failed...)
		}
		requests = requests[seen:]
	}
	return nil
}

func (k *kernel) send(ctx context.Context, requests []request) (refused []failure, seen int, err error) {
	s, err := k.socket(requests[0].lane().protocol)
	if err != nil {
		return nil, 0, err
	}
	return s.send(ctx, len(requests), func(i int, e *encoder) { requests[i].encode(k, e) })
}

// again makes one request that was refused, and what the refusal asks for in its
// place.
func (k *kernel) again(ctx context.Context, r request) error {
	for range 3 {
		refused, _, err := k.send(ctx, []request{r})
		if err != nil || len(refused) == 0 {
			return err
		}
		next, err := r.refused(refused[0].errno)
		if next == nil || err != nil {
			return err
		}
		r = next
	}
	// Something else changes the kernel at the same time.
	_, err := r.refused(unix.EBUSY)
	return err
}
