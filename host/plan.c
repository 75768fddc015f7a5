#include "host/plan.h"

#include "host/host.h"

#include <stdlib.h>

void host_provision_plan_done(struct host_provision_plan *plan)
{
    free(plan->tenant);
    free(plan->execution_id);
    free(plan->image);
    for (char **variable = plan->environment; variable != NULL && *variable != NULL; variable++) {
        free(*variable);
    }
    free(plan->environment);
    free(plan->repository_path);
    free(plan->repository_root);
    free(plan->revision);
    free(plan->owner_id);
    *plan = (struct host_provision_plan){0};
}

struct host_identity host_provision_plan_identity(const struct host_provision_plan *plan)
{
    return (struct host_identity){
        .tenant = plan->tenant,
        .execution_id = plan->execution_id,
        .incarnation = plan->incarnation,
    };
}

void host_provisioned_done(struct host_provisioned *p)
{
    free(p->handle);
    free(p->image_digests);
    *p = (struct host_provisioned){0};
}

void host_found_done(struct host_found *found)
{
    free(found->tenant);
    free(found->execution_id);
    free(found->owner_id);
    free(found->handle);
    *found = (struct host_found){0};
}

int host_found_list_add(struct host_found_list *list, struct host_found *found, struct error *err)
{
    struct host_found *items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (items == NULL) {
        host_found_done(found);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    list->items = items;
    list->items[list->count++] = *found;
    *found = (struct host_found){0};
    return 0;
}

void host_found_list_done(struct host_found_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        host_found_done(&list->items[i]);
    }
    free(list->items);
    *list = (struct host_found_list){0};
}

void host_image_list_done(struct host_image_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].reference);
        free(list->items[i].digests);
    }
    free(list->items);
    *list = (struct host_image_list){0};
}
