// SPDX-License-Identifier: GPL-2.0-only
/*
 * Routes: where the requests of a client go that name no pool.
 *
 * A route of a thread has the thread's struct pid, so that a number which is used
 * again is no match. It ends with its thread; whoever has to do with the client's
 * routes next finds that out. A route of a stream ends with the stream.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "private.h"

/**
 * struct devpool_route - sends requests of a client to a pool
 * @link: in &devpool_client.routes; under the client's lock
 * @member: the client's share in the pool, with a reference and a tie
 * @scope: one of &enum devpool_scope
 * @thread: %DEVPOOL_SCOPE_THREAD: the thread, with a reference
 * @stream: %DEVPOOL_SCOPE_STREAM: the stream, with a reference; NULL for the host
 */
struct devpool_route {
	struct list_head link;
	struct devpool_member *member;
	u32 scope;
	struct pid *thread;
	struct devpool_stream *stream;
};

/* A thread that nobody has waited for yet is dead as well. */
static bool devpool_route_is_dead(const struct devpool_route *route)
{
	struct task_struct *task;
	bool dead;

	if (!route->thread)
		return false;
	rcu_read_lock();
	task = pid_task(route->thread, PIDTYPE_PID);
	dead = !task || READ_ONCE(task->exit_state);
	rcu_read_unlock();
	return dead;
}

/* Is it for requests that this thread makes on a stream, NULL being the host? */
static bool devpool_route_matches(const struct devpool_route *route,
				  const struct devpool_stream *stream)
{
	if (route->scope == DEVPOOL_SCOPE_STREAM)
		return route->stream == stream;
	return !route->thread || route->thread == task_pid(current);
}

/* The same where the stream is told by its number. */
static bool devpool_route_is_for(const struct devpool_route *route, u32 number)
{
	if (route->scope == DEVPOOL_SCOPE_STREAM)
		return (route->stream ? route->stream->number : 0) == number;
	return devpool_route_matches(route, NULL);
}

static void devpool_route_free(struct devpool_route *route)
{
	kref_put(&route->member->ref, devpool_member_release);
	put_pid(route->thread);
	if (route->stream)
		devpool_stream_put(route->stream);
	kfree(route);
}

/* Moves the routes of dead threads to a list. */
static void devpool_routes_take_dead(struct devpool_client *client, struct list_head *dead)
{
	struct devpool_route *route, *next;

	lockdep_assert_held(&client->lock);
	list_for_each_entry_safe(route, next, &client->routes, link) {
		if (devpool_route_is_dead(route)) {
			list_move(&route->link, dead);
			client->nr_routes--;
		}
	}
}

/* Ends routes that nobody finds any more. */
static void devpool_routes_end(struct list_head *routes)
{
	struct devpool_route *route, *next;

	list_for_each_entry_safe(route, next, routes, link) {
		struct devpool_member *member = route->member;
		struct devpool_pool *pool = member->pool;

		mutex_lock(&pool->lock);
		devpool_member_untie(member);
		devpool_pool_unlock(pool);
		devpool_route_free(route);
		cond_resched();
	}
}

static struct devpool_route *devpool_route_same(struct devpool_client *client,
						const struct devpool_member *member,
						u32 scope,
						const struct devpool_stream *stream)
{
	struct devpool_route *route;

	lockdep_assert_held(&client->lock);
	list_for_each_entry(route, &client->routes, link)
		if (route->member == member && route->scope == scope &&
		    devpool_route_matches(route, stream))
			return route;
	return NULL;
}

static int devpool_route_insert(struct devpool_client *client, struct devpool_route *route)
{
	int err = 0;

	spin_lock(&client->lock);
	if (devpool_route_same(client, route->member, route->scope, route->stream)) {
		err = -EBUSY;
	} else if (route->stream && READ_ONCE(route->stream->ended)) {
		err = -ENOENT;
	} else if (client->nr_routes >= devpool_max_routes) {
		err = -EDQUOT;
	} else {
		list_add(&route->link, &client->routes);
		client->nr_routes++;
	}
	spin_unlock(&client->lock);
	return err;
}

/**
 * devpool_route_begin - ROUTE_BEGIN
 * @client: the client
 * @id: the pool, not {0,0}
 * @scope: one of &enum devpool_scope
 * @stream: the stream that is its scope; NULL for the host and for other scopes
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT (no such pool of the client's), -EBUSY (there is this route),
 * -EDQUOT or -ENOMEM.
 */
int devpool_route_begin(struct devpool_client *client, const struct devpool_pool_id *id,
			u32 scope, struct devpool_stream *stream)
{
	struct devpool_member *member;
	struct devpool_route *route;
	struct devpool_pool *pool;
	int err;

	devpool_routes_reap(client);
	member = devpool_client_get_member(client, id);
	if (!member)
		return -ENOENT;
	route = kmalloc(sizeof(*route), GFP_KERNEL_ACCOUNT);
	if (!route) {
		kref_put(&member->ref, devpool_member_release);
		return -ENOMEM;
	}
	route->member = member;
	route->scope = scope;
	route->thread = scope == DEVPOOL_SCOPE_THREAD ? get_pid(task_pid(current)) : NULL;
	route->stream = stream;
	if (stream)
		kref_get(&stream->ref);

	pool = member->pool;
	mutex_lock(&pool->lock);
	err = devpool_member_tie(member);
	if (!err) {
		err = devpool_route_insert(client, route);
		if (err)
			devpool_member_untie(member);
	}
	devpool_pool_unlock(pool);
	if (err)
		devpool_route_free(route);
	return err;
}

/**
 * devpool_route_end - ROUTE_END
 * @client: the client
 * @id: the pool, not {0,0}
 * @scope: one of &enum devpool_scope
 * @stream: the stream that is its scope; NULL for the host and for other scopes
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if there is no such route.
 */
int devpool_route_end(struct devpool_client *client, const struct devpool_pool_id *id,
		      u32 scope, const struct devpool_stream *stream)
{
	struct devpool_route *route = NULL;
	struct devpool_member *member;
	LIST_HEAD(routes);

	devpool_routes_reap(client);
	member = devpool_client_get_member(client, id);
	if (!member)
		return -ENOENT;
	spin_lock(&client->lock);
	route = devpool_route_same(client, member, scope, stream);
	if (route) {
		list_move(&route->link, &routes);
		client->nr_routes--;
	}
	spin_unlock(&client->lock);
	kref_put(&member->ref, devpool_member_release);
	devpool_routes_end(&routes);
	return route ? 0 : -ENOENT;
}

/**
 * devpool_route_find - where a request goes that names no pool
 * @client: the client
 * @number: the stream of the request, 0 for the host; one that the client does not
 *	have matches no route of a stream
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: the client's share in the pool of the latest route that matches, to be put
 * with devpool_client_put_member(); without one that in its default pool.
 */
struct devpool_member *devpool_route_find(struct devpool_client *client, u32 number)
{
	struct devpool_member *member = client->home;
	struct devpool_route *route;
	LIST_HEAD(dead);

	spin_lock(&client->lock);
	devpool_routes_take_dead(client, &dead);
	list_for_each_entry(route, &client->routes, link) {
		if (devpool_route_is_for(route, number)) {
			member = route->member;
			kref_get(&member->ref);
			break;
		}
	}
	spin_unlock(&client->lock);
	devpool_routes_end(&dead);
	return member;
}

/**
 * devpool_routes_reap - ends the routes of threads that are dead
 * @client: the client
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_routes_reap(struct devpool_client *client)
{
	LIST_HEAD(dead);

	if (list_empty(&client->routes))
		return;
	spin_lock(&client->lock);
	devpool_routes_take_dead(client, &dead);
	spin_unlock(&client->lock);
	devpool_routes_end(&dead);
}

/**
 * devpool_routes_end_stream - ends the routes of a stream
 * @client: the client
 * @stream: the stream, which has ended
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_routes_end_stream(struct devpool_client *client,
			       const struct devpool_stream *stream)
{
	struct devpool_route *route, *next;
	LIST_HEAD(routes);

	spin_lock(&client->lock);
	list_for_each_entry_safe(route, next, &client->routes, link) {
		if (route->stream == stream) {
			list_move(&route->link, &routes);
			client->nr_routes--;
		}
	}
	spin_unlock(&client->lock);
	devpool_routes_end(&routes);
}

/**
 * devpool_routes_close - ends all routes
 * @client: the client, whose file is closed
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_routes_close(struct devpool_client *client)
{
	LIST_HEAD(routes);

	spin_lock(&client->lock);
	list_splice_init(&client->routes, &routes);
	client->nr_routes = 0;
	spin_unlock(&client->lock);
	devpool_routes_end(&routes);
}
